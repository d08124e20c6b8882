for (const select of document.querySelectorAll("select.sizes")) {
  select.hidden = false;
  const parts = select.closest("figure").querySelectorAll("[data-size]");
  const show = () => { for (const part of parts) part.hidden = part.dataset.size !== select.value; };
  select.addEventListener("change", show);
  show();
}
