"use strict";
// Buttons that copy commands, and links below tables that fetch a file embedded further down. The
// page is whole without either.

const copyBySelection = (pre) => {
  const selection = getSelection();
  selection.selectAllChildren(pre);
  const copied = document.execCommand("copy");
  selection.removeAllRanges();
  if (!copied) throw new Error("not copied");
};

const copy = async (pre) => {
  try {
    await navigator.clipboard.writeText(pre.textContent);
  } catch {
    // no clipboard: not a secure context, or not allowed
    copyBySelection(pre);
  }
};

for (const pre of document.querySelectorAll("pre")) {
  const words = pre.closest("[data-copy]").dataset;
  const row = document.createElement("div");
  row.className = "copying";
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = words.copy;
  const said = document.createElement("span");
  said.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    said.textContent = "";
    await copy(pre).then(
      () => { said.textContent = words.copied; },
      () => { said.textContent = words.uncopied; },
    );
    setTimeout(() => { said.textContent = ""; }, 4000);
  });
  row.append(said, button);
  pre.before(row);
}

for (const link of document.querySelectorAll("a[data-file]")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById(link.dataset.file).click();
  });
}
