// The ring of a mirror's members: who reads and who writes now, and how a rebuild goes.

import { ago, bytes, percent } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const CENTRE = 100;
const RADIUS = 72;

/** What a member does, as the name of a class and of a key. */
export const doing = ({ standing, role }) => {
  if (standing === "in-sync") return role;
  return standing === "rebuilding" ? "rebuilding" : "out";
};

/** The colour of what a member does, as a custom property. */
export const colourOf = (member) =>
  ({ reading: "reads", writing: "writes", rebuilding: "rebuild", out: "idle" })[doing(member)];

const element = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

const point = (turn, radius) => {
  const angle = (turn - 0.25) * 2 * Math.PI;
  return [CENTRE + radius * Math.cos(angle), CENTRE + radius * Math.sin(angle)];
};

const arc = (from, to) => {
  const [startX, startY] = point(from, RADIUS);
  const [endX, endY] = point(to, RADIUS);
  return `M ${startX} ${startY} A ${RADIUS} ${RADIUS} 0 ${to - from > 0.5 ? 1 : 0} 1 ${endX} ${endY}`;
};

/** Draws each member as an arc, clockwise from the top. */
export const drawRing = (svg, mirror) => {
  const count = mirror.members.length;
  const parts = mirror.members.map((member, place) => {
    // One alone is nearly a circle: an arc that ends where it begins is none.
    const [from, to] = [(place + 0.02) / count, (place + 0.98) / count];
    const group = element("g", {});
    group.append(element("path", { class: doing(member), d: arc(from, to) }));
    const [x, y] = point((from + to) / 2, RADIUS);
    group.append(element("text", { x, y }, `${place}`));
    return group;
  });
  const turning = mirror.readers > 0;
  const middle = turning ? `${mirror.readers} of ${count}` : `${mirror.members_in_sync} of ${count}`;
  svg.replaceChildren(
    ...parts,
    element("text", { x: CENTRE, y: CENTRE - 10 }, middle),
    element("text", { x: CENTRE, y: CENTRE + 10 }, turning ? "only read" : "read and write"),
  );
  const each = mirror.members.map((member, place) => `member ${place}: ${doing(member)}`).join(", ");
  svg.setAttribute("aria-label", `The ring of members. ${each}`);
};

/** What a member does, in words. */
export const inWords = (member) => {
  if (member.standing === "rebuilding" && member.rebuild_size_bytes !== null) {
    const share = percent(member.rebuild_done_bytes / Math.max(1, member.rebuild_size_bytes));
    return `${member.lacks_bytes === null ? "is rebuilt" : "is taken back"}: ${share}`;
  }
  if (member.standing === "in-sync") return member.slow ? `${member.role}, much slower than the others` : member.role;
  const away = member.away_s === null ? "" : `, away for ${ago(member.away_s)}`;
  return `${member.standing}${member.failure === null ? "" : `: ${member.failure}`}${away}`;
};

/** How far rebuilds are, as meters for `meter(name, share, text)`. */
export const rebuilds = (mirror) =>
  mirror.members
    .map((member, place) => ({ member, place }))
    .filter(({ member }) => member.rebuild_size_bytes !== null)
    .map(({ member, place }) => ({
      name: `Rebuild of member ${place}`,
      share: member.rebuild_done_bytes / Math.max(1, member.rebuild_size_bytes),
      text: `${bytes(member.rebuild_done_bytes)} of ${bytes(member.rebuild_size_bytes)}`,
    }));
