// Remembers the columns that the reader chose for the list of traces. Without it they are those of the address.
"use strict";

const columns = document.querySelector(".columns-of");
columns?.form.addEventListener("submit", () => {
  const chosen = [...columns.querySelectorAll("input:checked")].map((box) => box.value).join(".");
  document.cookie = `columns=${chosen}; path=/traces; max-age=31536000; samesite=strict`;
});
