// The theme: that of the system, unless the reader has chosen one before.
{
  const root = document.documentElement;
  const KEY = "extremum-theme";
  let kept = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // A page that is opened as a local file may not be allowed to use storage.
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
      // Without storage, the choice is lost when the page is closed.
    }
  });
}
