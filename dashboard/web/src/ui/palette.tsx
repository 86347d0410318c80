// Command palette (Ctrl-K) over all pages and objects, and the list of keyboard shortcuts (`?`).
import { useMemo, useState, useRef, useEffect } from "preact/hooks";
import { session, sign_out } from "../api";
import { t, word, type Key } from "../i18n";
import { use_answer } from "../live/poll";
import { use_topic } from "../live/use";
import { job_name, state_of_job, type Job } from "../pages/job_rows";
import { language, theme } from "../prefs";
import { go, route } from "../router";
import { Icon, type IconName } from "./icons";
import { kPages } from "./keys";
import { fits } from "./match";
import { Dialog } from "./parts";
import { pages } from "./shell";
import { actor_name, short_class } from "./names";

interface Entry {
  key: string;
  text: string;
  kind: string;
  icon: IconName;
  named?: boolean;  // Has a name given by a user; ranked before entries that only have a class.
  late?: boolean;  // Ranked after all other matches.
  run: () => void;
}

// Matches kind and name together: "node os" finds the node osprey.
const holds = (entry: Entry, typed: string) => (entry.kind + " " + entry.text).toLowerCase().includes(typed.trim().toLowerCase());

export function Palette({ on_close }: { on_close: () => void }) {
  const [typed, set_typed] = useState("");
  const [at, set_at] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const entries = use_entries();
  const found = useMemo(() => {
    const scored = entries.map((entry) => ({ entry, score: Math.max(fits(typed, entry.text), holds(entry, typed) ? 400 : -1) + (entry.named && typed.trim() && entry.text.toLowerCase().includes(typed.trim().toLowerCase()) ? 300 : 0) })).filter((one) => one.score >= 0);
    return scored.sort((a, b) => Number(a.entry.late ?? false) - Number(b.entry.late ?? false) || b.score - a.score).slice(0, 50).map((one) => one.entry);
  }, [entries, typed]);
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" }), [at]);
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    on_close();
    entry.run();
  };
  const on_key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (event.key === "Enter") run(found[at]);
    else if (step && found.length) set_at((at + step + found.length) % found.length);
    else return;
    event.preventDefault();
  };
  return (
    <dialog class="palette" ref={dialog} aria-label={t("palette.title")} onCancel={(event) => { event.preventDefault(); on_close(); }} onClick={(event) => { if (event.target === dialog.current) on_close(); }}>
      <div class="palette-body" onKeyDown={on_key}>
        <label class="filter">
          <Icon name="search" />
          <span class="visually-hidden">{t("palette.title")}</span>
          <input autofocus value={typed} placeholder={t("palette.hint")} spellcheck={false} role="combobox" aria-expanded="true" aria-controls="palette-list" aria-activedescendant={found[at] ? "palette-" + at : undefined}
            onInput={(event) => { set_typed(event.currentTarget.value); set_at(0); }} />
          <kbd>Esc</kbd>
        </label>
        <ul id="palette-list" role="listbox" aria-label={t("palette.title")} ref={list}>
          {found.map((entry, i) => (
            <li key={entry.key} id={"palette-" + i} role="option" aria-selected={i === at} onMouseMove={() => set_at(i)} onClick={() => run(entry)}>
              <Icon name={entry.icon} /><span>{entry.text}</span><small>{entry.kind}</small>
            </li>
          ))}
        </ul>
        {!found.length && <p class="quiet-line pad">{t("palette.nothing")}</p>}
      </div>
    </dialog>
  );
}

const kJobs = 2000;  // The newest.

function use_entries(): Entry[] {
  const nodes = use_topic("nodes", {}, 1000).list();
  const actors = use_topic("actors", {}, 1000).list();
  const experiments = use_topic("experiments", {}, 1000).list();
  const jobs = use_answer<{ rows: Job[] }>(session.value?.view ? null : `/api/v1/jobs?page_size=${kJobs}&fields=id,spec.name,state,stopping`).answer?.rows;
  const inside = route.value.path[0] === "experiments" ? route.value.path[1] ?? null : null;
  const trials = use_topic(inside ? "trials" : null, inside ? { experiment: inside } : {}, 1000).list();
  return useMemo(() => {
    const places = pages().map(([key, icon]): Entry => ({ key: "p" + key, text: t(`nav.${key}` as Key), kind: t("palette.page"), icon, run: () => go(key === "overview" ? [] : [key]) }));
    const things: Entry[] = [
      ...experiments.map((one): Entry => ({ key: "e" + one.id, text: one.name, kind: t("palette.experiment"), icon: "experiments", run: () => go(["experiments", one.name]) })),
      ...nodes.map((one): Entry => ({ key: "n" + one.id, text: one.name, kind: t("palette.node"), icon: "nodes", run: () => go(["nodes", one.name]) })),
      ...actors.map((one): Entry => ({ key: "a" + one.id, text: one.name ? `${one.name} · ${short_class(one.class_name)}` : actor_name(one), kind: one.state === "dead" ? word("dead") : t("palette.actor"), named: Boolean(one.name), late: one.state === "dead", icon: "actors", run: () => go(["actors", one.id]) })),
      ...(jobs ?? []).map((one): Entry => ({ key: "j" + one.id, text: job_name(one) === one.id ? one.id : `${job_name(one)} · ${one.id}`, kind: t("palette.job", { state: word(state_of_job(one)) }), named: true, late: one.state !== "running" && one.state !== "queued", icon: "jobs", run: () => go(["jobs", one.id]) })),
      ...trials.map((one): Entry => ({ key: "t" + one.id, text: one.name ? `${one.name} · ${one.id}` : one.id, kind: t("palette.trial"), icon: "experiments", run: () => go(["experiments", one.experiment || inside!, "trials", one.id]) })),
    ];
    const actions: Entry[] = [
      { key: "dark", text: t("theme.dark"), kind: t("theme"), icon: "moon", run: () => { theme.value = "dark"; } },
      { key: "light", text: t("theme.light"), kind: t("theme"), icon: "sun", run: () => { theme.value = "light"; } },
      { key: "system", text: t("theme.system"), kind: t("theme"), icon: "screen", run: () => { theme.value = "system"; } },
      { key: "en", text: "English", kind: t("language"), icon: "info", run: () => { language.value = "en"; } },
      { key: "zh", text: "中文", kind: t("language"), icon: "info", run: () => { language.value = "zh"; } },
      ...(session.value?.view ? [] : [{ key: "out", text: t("nav.sign_out"), kind: t("palette.action"), icon: "out", run: () => { void sign_out(); } } as Entry]),
    ];
    return [...places, ...things, ...actions];
  }, [nodes, actors, experiments, trials, jobs, language.value]);
}

export const Help = ({ on_close }: { on_close: () => void }) => (
  <Dialog title={t("help.title")} on_close={on_close}>
    <dl class="keys">
      {([["Ctrl K", "help.palette"], ["/", "help.filter"], ["?", "help.help"], ["↑ ↓ j k", "help.rows"], ["Enter", "help.open"], ["Esc", "help.close"], ["Shift ← →", "help.width"], ["Shift Enter", "help.fit"], ["Ctrl Shift ← →", "help.move"]] as [string, Key][]).map(([key, text]) => (
        <div key={key}><dt>{key.split(" ").map((one) => <kbd key={one}>{one}</kbd>)}</dt><dd>{t(text)}</dd></div>
      ))}
      {Object.entries(kPages).filter(([, page]) => pages().some(([key]) => key === page)).map(([key, page]) => (
        <div key={key}><dt><kbd>g</kbd><kbd>{key}</kbd></dt><dd>{t(`nav.${page}` as Key)}</dd></div>
      ))}
    </dl>
  </Dialog>
);
