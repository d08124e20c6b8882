for (const button of document.querySelectorAll("button[data-text]")) {
  button.hidden = false;
  const label = button.textContent;
  const fallBack = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  };
  button.addEventListener("click", async () => {
    const text = button.dataset.text;
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copied = fallBack(text);
    }
    button.textContent = copied ? "Copied" : "Select the table instead";
    setTimeout(() => { button.textContent = label; }, 2000);
  });
}
