// Restores scroll positions on "back", by entry of the history.
const kBoxes = ".scroll, .page-body, .log-scroll";
const kTries = 60;  // Animation frames to wait for rows to be rendered again.

interface Entry {
  entry?: number;
}

export function keep_scroll(): void {
  const kept = new Map<number, Map<string, number>>();
  let next = Date.now();
  const now = () => (history.state as Entry | null)?.entry;
  const mark = () => {
    if (now() === undefined) history.replaceState({ ...(history.state ?? {}), entry: next++ }, "");
  };
  const name = (box: Element) => [...document.querySelectorAll(kBoxes)].filter((one) => one.className === box.className).indexOf(box) + " " + box.className;
  let restoring = 0;
  document.addEventListener("scroll", (event) => {
    const box = event.target;
    if (restoring || !(box instanceof Element) || !box.matches(kBoxes)) return;
    const entry = now();
    if (entry === undefined) return;
    const places = kept.get(entry) ?? new Map<string, number>();
    places.set(name(box), box.scrollTop);
    kept.set(entry, places);
  }, true);
  addEventListener("hashchange", () => {
    cancelAnimationFrame(restoring);
    restoring = 0;
    const entry = now();
    mark();
    const places = entry === undefined ? undefined : kept.get(entry);
    if (!places) return;
    let tries = 0;
    const restore = () => {
      const boxes = [...document.querySelectorAll(kBoxes)];
      const left = [...places].filter(([key, top]) => {
        const box = boxes.find((one) => name(one) === key);
        if (box) box.scrollTop = top;
        return !box || Math.abs(box.scrollTop - top) > 2;
      });
      restoring = left.length && ++tries < kTries ? requestAnimationFrame(restore) : 0;
    };
    restoring = requestAnimationFrame(restore);
  });
  mark();
}
