// Light or dark: as the system says, or as was chosen here before.
{
  const root = document.documentElement;
  const KEY = "extremum-theme";
  let kept = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // A page that was opened as a file may have no storage.
  }
  if (kept) root.style.colorScheme = kept;
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme")) return;
    const system = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.style.colorScheme || (system ? "dark" : "light");
    root.style.colorScheme = now === "dark" ? "light" : "dark";
    try {
      localStorage.setItem(KEY, root.style.colorScheme);
    } catch {
      // Then it holds for this visit.
    }
  });
}
