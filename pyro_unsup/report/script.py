"""The script of a page: a box that shows probabilities, and a search over the examples. The page is whole without."""

#: Titles become a box of our own, which a keyboard and a finger reach too.
SCRIPT = """
(() => {
  const tip = document.getElementById("tip");
  for (const one of document.querySelectorAll("main [title]")) {
    one.dataset.tip = one.title;
    one.removeAttribute("title");
  }
  for (const one of document.querySelectorAll("svg g > title")) {
    const part = one.parentNode;
    part.dataset.tip = one.textContent;
    part.setAttribute("aria-label", one.textContent);
    one.remove();
  }
  const show = (event) => {
    const part = event.target.closest && event.target.closest("[data-tip]");
    if (!part) return hide();
    tip.textContent = part.dataset.tip;
    tip.hidden = false;
    part.setAttribute("aria-describedby", "tip");
    const at = part.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const left = Math.min(at.left + at.width / 2 - box.width / 2, innerWidth - box.width - 8);
    const above = at.top - box.height - 8;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above < 8 ? Math.min(at.bottom + 8, innerHeight - box.height - 8) : above) + "px";
  };
  const hide = () => { tip.hidden = true; };
  for (const name of ["pointerover", "focusin"]) document.addEventListener(name, show);
  for (const name of ["focusout", "scroll"]) addEventListener(name, hide, true);
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  const find = document.getElementById("find"), only = document.getElementById("only-wrong");
  if (!find) return;
  find.closest("form").hidden = false;
  const all = [...document.querySelectorAll("article.example")], count = document.getElementById("found");
  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    for (const one of all) {
      const fits = one.dataset.find.includes(wanted) && !(only && only.checked && !one.hasAttribute("data-wrong"));
      one.hidden = !fits;
      shown += fits;
    }
    count.textContent = shown + " of " + all.length;
  };
  find.addEventListener("input", filter);
  if (only) only.addEventListener("change", filter);
  find.closest("form").addEventListener("submit", (event) => event.preventDefault());
  filter();
})();
"""
