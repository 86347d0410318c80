// Small components shared by all pages.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, may } from "../api";
import * as format from "../format";
import { actor_word, locale, t, word, type Key } from "../i18n";
import type { Collection } from "../live/collection";
import type { Resources, Row } from "../live/protocol";
import { narrow } from "../prefs";
import { go, link } from "../router";
import { Icon, type IconName } from "./icons";
import { ends_of } from "./names";
import { kTrialStates, looks } from "./states";

export const num = (value: number | null | undefined) => format.number(value, locale());
export const count = (value: number | null | undefined) => format.count(value, locale());
export const size = (value: number | null | undefined) => format.bytes(value, locale());
export const rate = (bytes_per_s: number | null | undefined) => `${size(bytes_per_s)}/s`;
export const celsius = (value: number) => `${num(Math.round(value))} °C`;
export const watts = (value: number) => `${num(value < 100 ? Math.round(value * 10) / 10 : Math.round(value))} W`;
export const span = (ms: number | null | undefined) => format.duration(ms, locale());
// Three digits with a unit, from microseconds on.
export const seconds = (value: number): string => (value === 0 ? "0" : value < 1e-3 ? t("tasks.us", { n: num(Number((value * 1e6).toPrecision(3))) }) : value < 1 ? t("tasks.ms", { n: num(Number((value * 1e3).toPrecision(3))) }) : value < 60 ? t("train.s", { n: num(Number(value.toPrecision(3))) }) : span(value * 1000));
export const share = (part: number) => format.percent(part, locale());

export const amount = (resource: string, value: number) => (resource === "memory" || resource.endsWith("_bytes") ? size(value) : num(value));

// Formats requested resources: "2 CPUs, 4 GiB".
export const resources_text = (resources: Resources | undefined) =>
  Object.entries(resources ?? {})
    .filter(([, value]) => value > 0)
    .map(([name, value]) => (name === "memory" ? size(value) : name === "cpus" || name === "gpus" ? t(`resource.n_${name}`, { n: value, amount: num(value) }) : t("resource.of", { amount: num(value), name })))
    .join(", ");

export const resource_name = (name: string) =>
  name === "cpus" ? t("resource.cpus") : name === "gpus" ? t("resource.gpus") : name === "memory" ? t("resource.memory") : name;

// `actor`: translates the state as an actor's; "alive" has different Chinese words for nodes and actors.
export function State({ of, quiet, actor }: { of: string; quiet?: boolean; actor?: boolean }) {
  const [icon, tone] = looks(of);
  return (
    <span class={`state tone-${tone}${quiet ? " quiet" : ""}`}>
      <Icon name={icon} />
      {actor ? actor_word(of) : word(of)}
    </span>
  );
}

export function Meter({ part, of, label }: { part: number; of: number; label: string }) {
  const ratio = of > 0 ? Math.min(1, Math.max(0, part / of)) : 0;
  return (
    <div class="meter" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={of} aria-valuenow={part}>
      <div style={{ width: ratio * 100 + "%" }} />
    </div>
  );
}

// Truncates a long name in its middle, since similar names often differ in their end.
export function Middle({ text, kept = 10 }: { text: string; kept?: number }) {
  const [start, end] = ends_of(text, kept);
  return <span class="middle" title={text}><span>{start}</span>{end && <span>{end}</span>}</span>;
}

// Stacked bar of the number of trials in each state.
export function StateBar({ counts, total }: { counts: Record<string, number>; total: number }) {
  const known = kTrialStates.filter((state) => counts[state] > 0);
  const seen = known.reduce((sum, state) => sum + counts[state], 0);
  const text = known.map((state) => `${count(counts[state])} ${word(state)}`).join(", ");
  return (
    <div class="state-bar" role="img" aria-label={text || t("trials.none")} title={text}>
      {known.map((state) => (
        <div key={state} class={`fill-${looks(state)[1]} st-${state}`} style={{ flexGrow: counts[state] }} />
      ))}
      {total > seen && <div class="st-rest" style={{ flexGrow: total - seen }} />}
    </div>
  );
}

export const Card = ({ title, action, children, grow, label }: {
  title?: ComponentChildren; action?: ComponentChildren; children: ComponentChildren; grow?: boolean; label?: string;
}) => (
  <section class={`card${grow ? " grow" : ""}`} aria-label={label}>
    {title !== undefined && (
      <header>
        <h2>{title}</h2>
        {action}
      </header>
    )}
    {children}
  </section>
);

export function Head({ trail, title, state, of_actor, facts, actions, children }: {
  trail?: { text: string; path: string[] }[]; title: string; state?: string; of_actor?: boolean; facts?: ComponentChildren; actions?: ComponentChildren; children?: ComponentChildren;
}) {
  useEffect(() => {
    document.title = `${title} · Volador`;
  }, [title]);
  return (
    <header class="page-head">
      <div class="title-row">
        {trail && (
          <nav class="trail" aria-label={t("nav.trail")}>
            {trail.map((step) => (
              <span key={step.text}>
                <a href={link(step.path)}>{step.text}</a>
                <Icon name="next" />
              </span>
            ))}
          </nav>
        )}
        <h1 title={title} tabIndex={-1}>{title}</h1>
        {state && <State of={state} actor={of_actor} />}
        {facts}
        {actions && <div class="actions">{narrow.value ? <Popover text={t("more")} plain>{actions}</Popover> : actions}</div>}
      </div>
      {children}
    </header>
  );
}

export const Empty = ({ icon, title, children, code }: { icon: IconName; title: string; children?: ComponentChildren; code?: string }) => (
  <div class="empty">
    <Icon name={icon} />
    <p class="strong">{title}</p>
    {children && <p>{children}</p>}
    {code && <Code text={code} />}
  </div>
);

export const Loading = () => (
  <div class="loading" role="status">
    <span class="visually-hidden">{t("state.loading")}</span>
    {[0, 1, 2, 3, 4].map((i) => <div key={i} class="bone" />)}
  </div>
);

export const Failed = ({ what, next }: { what: string; next: string }) => (
  <div class="empty" role="alert">
    <Icon name="warning" />
    <p class="strong">{what}</p>
    <p>{next}</p>
  </div>
);

// Returns the message of an error and the next step, from the head if it names one.
export function failure(error: unknown): { what: string; next: string } {
  if (!(error instanceof ApiError)) return { what: String(error), next: t("error.reload") };
  if (error.status === 0) return { what: t("error.away"), next: t("error.away.next") };
  const next = error.next || (error.status === 403 ? t("error.role.next") : error.status === 404 ? t("error.gone.next") : t("error.reload"));
  return { what: error.detail || t("error.status", { status: error.status }), next };
}

// Page of an object that is not in its collection; shows a placeholder while the collection loads.
export const Missing = <T extends Row>({ of, trail, title, what, next }: { of: Collection<T>; trail: Parameters<typeof Head>[0]["trail"]; title: string; what: string; next: string }) => (
  <>
    <Head trail={trail} title={title} />
    {of.phase.value === "loading" ? <Loading /> : <Failed what={what} next={next} />}
  </>
);

export function Rows<T extends Row>({ of, children }: { of: Collection<T>; children: (rows: T[]) => ComponentChildren }) {
  // Renders rows once they are loaded, a placeholder before that, or the error of the subscription.
  if (of.phase.value === "error") {
    return <Failed what={of.error.detail || of.error.code} next={of.error.code === "kPermissionDenied" ? t("error.role.next") : t("error.gone.next")} />;
  }
  if (of.phase.value === "loading") return <Loading />;
  return <>{children(of.list())}</>;
}

export function Copy({ text, label }: { text: string; label?: string }) {
  const [done, set_done] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => set_done(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const copy = () => {
    copy_text(text);
    set_done(true);
  };
  return (
    <button type="button" class={label ? "button" : "icon-button"} onClick={copy} aria-label={label ? undefined : t("copy")} title={t("copy")}>
      <Icon name={done ? "check" : "copy"} />
      {label && (done ? t("copied") : label)}
      <span class="visually-hidden" role="status">{done ? t("copied") : ""}</span>
    </button>
  );
}

// navigator.clipboard is only available on HTTPS and loopback.
function copy_text(text: string): void {
  if (navigator.clipboard) {
    void navigator.clipboard.writeText(text);
    return;
  }
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export const Code = ({ text }: { text: string }) => (
  <div class="code">
    <pre tabIndex={0}>{text}</pre>
    <Copy text={text} />
  </div>
);

export const Facts = ({ of }: { of: [Key, ComponentChildren][] }) => (
  <dl class="facts">
    {of.filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false).map(([key, value]) => (
      <div key={key}>
        <dt>{t(key)}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

export function Tabs({ tabs, now }: { tabs: { key: string; text: string; href: string }[]; now: string }) {
  const on_key = (event: KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    const at = tabs.findIndex((tab) => tab.key === now);
    location.hash = tabs[(at + step + tabs.length) % tabs.length].href.slice(1);
    const list = event.currentTarget as HTMLElement;
    setTimeout(() => list.querySelector<HTMLElement>('[aria-selected="true"]')?.focus(), 0);
  };
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const chosen = box.current?.querySelector<HTMLElement>('[aria-selected="true"]');
    if (chosen && box.current) box.current.scrollLeft = Math.max(0, chosen.offsetLeft - (box.current.clientWidth - chosen.offsetWidth) / 2);
  }, [now]);
  return (
    <div class="tabs" role="tablist" ref={box} onKeyDown={on_key}>
      {tabs.map((tab) => (
        <a key={tab.key} role="tab" href={tab.href} aria-selected={tab.key === now} tabIndex={tab.key === now ? 0 : -1}>{tab.text}</a>
      ))}
    </div>
  );
}

export function Select({ label, value, options, on_change }: {
  label: string; value: string; options: [string, string][]; on_change: (value: string) => void;
}) {
  return (
    <label class="select">
      <span>{label}</span>
      <select value={value} onChange={(event) => on_change(event.currentTarget.value)}>
        {options.map(([key, text]) => <option key={key} value={key}>{text}</option>)}
      </select>
    </label>
  );
}

// A button that opens further controls.
export function Popover({ text, children, plain }: { text: string; children: ComponentChildren; plain?: boolean }) {
  const [open, set_open] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return undefined;
    const outside = (event: Event) => { if (!box.current?.contains(event.target as Node)) set_open(false); };
    document.addEventListener("pointerdown", outside);
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);
  return (
    <div class="menu" ref={box} onKeyDown={(event) => { if (event.key === "Escape" && open) { event.stopPropagation(); set_open(false); } }}>
      <button type="button" class={`button popover-button${open ? " on" : ""}`} aria-expanded={open} onClick={() => set_open(!open)}>{text}{!plain && <Icon name="down" />}</button>
      {open && <div class="popover" role="group" aria-label={text}>{children}</div>}
    </div>
  );
}

export function Toggle({ label, on, on_change, disabled }: { label: string; on: boolean; on_change: (on: boolean) => void; disabled?: boolean }) {
  return (
    <button type="button" class={`button toggle${on ? " on" : ""}`} aria-pressed={on} disabled={disabled} onClick={() => on_change(!on)}>{label}</button>
  );
}

// A native modal dialog: focus stays inside, Escape closes it.
export function Dialog({ title, on_close, children, wide }: { title: string; on_close: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide" : undefined} aria-label={title} onCancel={(event) => { event.preventDefault(); on_close(); }}
      onClick={(event) => { if (event.target === element.current) on_close(); }}>
      <div class="dialog-body">
        <header>
          <h2>{title}</h2>
          <button type="button" class="icon-button" onClick={on_close} aria-label={t("close")}><Icon name="close" /></button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

// Marks a row whose values differ between columns.
export const Unequal = () => <><i class="unequal" aria-hidden="true">≠</i><span class="visually-hidden">{t("compare_trials.differs")} </span></>;

// Link with a row's name; a click anywhere in the row opens the same page.
export const RowLink = ({ path, children }: { path: string[]; children: ComponentChildren }) => (
  <a class="row-link" href={link(path)} tabIndex={-1}>{typeof children === "string" ? <Middle text={children} /> : children}</a>
);
// Start of a token's id; a link to the list of tokens for operators.
export const TokenLink = ({ id }: { id: string }) => (may("operator") ? <a href={link(["tokens"], { q: id })} title={id}><code>{id.slice(0, 12)}</code></a> : <code title={id}>{id.slice(0, 12)}</code>);
export const open_path = (path: string[]) => go(path);
