// The terminal of a running job: a shell in one of its ranks.
import { useEffect, useRef, useState } from "preact/hooks";
import { t } from "../i18n";
import { dark } from "../prefs";
import type { Screen } from "../terminal/screen";
import { Failed, Loading, failure } from "../ui/parts";

type End = { code: number } | { error: unknown };

export function JobTerminal({ job, rank }: { job: string; rank: number }) {
  const box = useRef<HTMLDivElement>(null);
  const screen = useRef<Screen | null>(null);
  const [loaded, set_loaded] = useState(false);
  const [end, set_end] = useState<End | null>(null);
  const [turn, set_turn] = useState(0);
  useEffect(() => {
    let gone = false;
    set_end(null);
    import("../terminal/screen").then(
      ({ open_screen }) => {
        if (gone || !box.current) return;
        set_loaded(true);
        screen.current = open_screen(box.current, { job, rank }, t("job.terminal.of", { rank }), set_end);
      },
      (error: unknown) => !gone && set_end({ error }),
    );
    return () => {
      gone = true;
      screen.current?.close();
      screen.current = null;
    };
  }, [job, rank, turn]);
  useEffect(() => screen.current?.look(), [dark.value]);
  return (
    <div class="terminal-place">
      {!loaded && !end && <Loading />}
      <div class="terminal-box" ref={box} role="group" aria-label={t("job.terminal.of", { rank })} />
      {end && (
        <div class="terminal-end" role="status">
          {"code" in end ? <p class="quiet-line">{t("job.terminal.ended", { code: end.code })}</p> : <Failed {...failure(end.error)} />}
          <button type="button" class="button small" onClick={() => set_turn(turn + 1)}>{t("job.terminal.again")}</button>
        </div>
      )}
    </div>
  );
}
