{
  // A chart takes its colours, dashes and letters from the page; alone it has to carry them.
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const named = (text) => text.replace(/var\((--[\w-]+)\)/g, (_, name) => style(name));
  const alone = (chart) => {
    const [, , width, height] = chart.getAttribute("viewBox").split(" ").map(Number);
    const copy = chart.cloneNode(true);
    copy.removeAttribute("class");
    copy.setAttribute("width", width / 4);
    copy.setAttribute("height", height / 4);
    copy.setAttribute("font-family", "sans-serif");
    const ground = document.createElementNS(chart.namespaceURI, "rect");
    for (const [name, value] of Object.entries({ width, height, fill: "var(--card)" })) {
      ground.setAttribute(name, value);
    }
    copy.prepend(ground);
    for (const part of copy.querySelectorAll("*")) {
      if (part.getAttribute("stroke") === "var(--model)") part.setAttribute("stroke-dasharray", "20 18");
      for (const name of ["fill", "stroke"]) {
        if (part.hasAttribute(name)) part.setAttribute(name, named(part.getAttribute(name)));
      }
    }
    return { text: new XMLSerializer().serializeToString(copy), width: width / 2, height: height / 2 };
  };
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  };
  const asSvg = (chart, name) => save(new Blob([alone(chart).text], { type: "image/svg+xml" }), name + ".svg");
  const asPng = (chart, name) => {
    const { text, width, height } = alone(chart);
    const picture = new Image();
    const source = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    picture.onload = () => {
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width, height });
      canvas.getContext("2d").drawImage(picture, 0, 0, width, height);
      URL.revokeObjectURL(source);
      canvas.toBlob((blob) => { if (blob) save(blob, name + ".png"); });
    };
    picture.src = source;
  };
  for (const chart of document.querySelectorAll("svg.chart")) {
    const label = chart.getAttribute("aria-label").split(/[.:]/)[0];
    const name = label.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "chart";
    const keep = document.createElement("div");
    keep.className = "keep";
    for (const [kind, act] of [["SVG", asSvg], ["PNG", asPng]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.title = "keep this chart as " + kind;
      button.addEventListener("click", () => act(chart, name));
      keep.append(button);
    }
    chart.after(keep);
  }
}
