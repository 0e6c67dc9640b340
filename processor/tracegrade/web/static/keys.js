// Shortcuts and copying. The page works without: each shortcut follows a link that is there, or goes to a field.
//   /  the box that finds names      j, k  the next and previous trace, or row of a list      Escape  close the span
"use strict";

const rows = () => [...document.querySelectorAll("main tbody th a")];

const step = (by) => {
  const link = document.querySelector(by > 0 ? "a[rel=next]" : "a[rel=prev]");
  const links = rows();
  if (document.querySelector(".neighbours") || !links.length) {
    link?.click();
    return;
  }
  const at = links.indexOf(document.activeElement) + by;
  links[Math.max(0, Math.min(links.length - 1, at))].focus();
};

const keys = {
  "/": () => document.querySelector("input[name=q]")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  Escape: () => document.querySelector(".panel .close a")?.click(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea, [contenteditable]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
});

if (navigator.clipboard) {
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.firstChild.textContent = "Copied";
    });
  }
}
