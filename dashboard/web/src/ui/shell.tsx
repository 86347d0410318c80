// The frame of every page: navigation, state of the live connection, theme and language.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { may, session, sign_out } from "../api";
import { clock } from "../format";
import { locale, t, word } from "../i18n";
import { kBehind } from "../live/connection";
import { connection, use_tick, use_topic } from "../live/use";
import { language, theme, type Theme } from "../prefs";
import { build } from "../route";
import { link, route } from "../router";
import { Icon, type IconName } from "./icons";
import { listen } from "./keys";
import { Help, Palette } from "./palette";
import { failure, span } from "./parts";
import { toast, Toasts } from "./toast";

export const kNav: [string, IconName][] = [
  ["overview", "overview"], ["experiments", "experiments"], ["projects", "projects"], ["models", "models"], ["studies", "search"], ["nodes", "nodes"], ["actors", "actors"], ["tasks", "tasks"], ["queue", "queue"], ["jobs", "jobs"], ["job_queue", "job_queue"], ["job_usage", "job_usage"], ["groups", "groups"], ["objects", "objects"],
  ["logs", "logs"], ["events", "events"], ["drivers", "drivers"], ["users", "users"], ["tokens", "tokens"], ["audit", "audit"],
];

const kForOperators = ["users", "tokens", "audit"];
// Returns the available pages; for results on disk only the experiments.
export const pages = () => kNav.filter(([key]) => (session.value?.view ? key === "experiments" : !kForOperators.includes(key) || may("operator")));

export function Shell({ children }: { children: ComponentChildren }) {
  const [palette, set_palette] = useState(false);
  const [help, set_help] = useState(false);
  const [menu, set_menu] = useState(false);
  useEffect(() => listen(() => set_palette(true), () => set_help(true)), []);
  const here = ["compare", "new_experiment"].includes(route.value.path[0]) ? "experiments" : route.value.path[0] === "uncategorized" ? "projects" : route.value.path[0] ?? (session.value?.view ? "experiments" : "overview");
  useEffect(() => set_menu(false), [route.value]);
  const path = route.value.path.join("/");
  const path_before = useRef(path);
  useEffect(() => {
    if (path_before.current === path) return;
    path_before.current = path;
    // Moves the focus to the heading, so that screen readers announce the page and Tab continues from there.
    if (!document.querySelector("dialog[open]")) document.querySelector<HTMLElement>("#main h1")?.focus({ preventScroll: true });
  }, [path]);
  const cluster = use_topic("cluster", {}, 1000).list()[0];
  const queue = use_topic("queue", {}, 500);
  return (
    <div class={`shell${menu ? " menu-open" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>{t("nav.skip")}</a>
      <header class="top-bar">
        <button type="button" class="icon-button" onClick={() => set_menu(!menu)} aria-expanded={menu} aria-label={t("nav.menu")}><Icon name="menu" /></button>
        <a class="brand" href={link([])}><img src="/assets/icon.svg" alt="" width="22" height="22" />{cluster?.name ?? "Volador"}</a>
        <LinkState small />
        <button type="button" class="icon-button" onClick={() => set_palette(true)} aria-label={t("palette.title")}><Icon name="search" /></button>
      </header>
      <aside class="side-bar">
        <a class="brand" href={link([])}><img src="/assets/icon.svg" alt="" width="22" height="22" /><span>{cluster?.name ?? session.value?.cluster ?? "Volador"}</span></a>
        <button type="button" class="palette-button" onClick={() => set_palette(true)}><Icon name="search" /><span>{t("palette.open")}</span><kbd>Ctrl K</kbd></button>
        <nav aria-label={t("nav.pages")}>
          {pages().map(([key, icon]) => (
            <a key={key} href={link(key === "overview" ? [] : [key])} aria-current={here === key ? "page" : undefined}>
              <Icon name={icon} /><span>{t(`nav.${key}` as "nav.overview")}</span>
              {key === "queue" && queue.size > 0 && <b class="badge">{queue.size}</b>}
            </a>
          ))}
        </nav>
        <footer>
          <LinkState />
          <Choices />
          <div class="who">
            <span>{session.value?.user && <b>{session.value.user} </b>}{word(session.value?.role ?? "")}</span>
            {!session.value?.view && <button type="button" class="icon-button" onClick={() => sign_out().catch((error) => toast(failure(error).what, "bad"))} aria-label={t("nav.sign_out")} title={t("nav.sign_out")}><Icon name="out" /></button>}
          </div>
        </footer>
      </aside>
      {menu && <div class="veil" onClick={() => set_menu(false)} />}
      <main id="main" tabIndex={-1} data-at={build(route.value)}>
        <Notice />
        {children}
      </main>
      <Toasts />
      {palette && <Palette on_close={() => set_palette(false)} />}
      {help && <Help on_close={() => set_help(false)} />}
    </div>
  );
}

// Shows "Live" only if the last "current" of the head is recent; else the age of the rows.
function LinkState({ small }: { small?: boolean }) {
  use_tick(1000);
  const link_now = connection.link.value;
  const age = connection.current_at.value ? connection.age() : 0;
  const live = link_now === "live" && age < kBehind;
  const text = live ? t("link.live") : link_now === "paused" ? t("link.paused") : age >= kBehind ? t("link.behind", { time: span(age < 10_000 ? age : age - (age % 5000)) }) : link_now === "live" ? t("link.live") : t("link.connecting");
  const title = connection.current_at.value ? `${text} · ${t("link.as_of", { time: clock(connection.current_at.value, locale()) })}` : text;
  return <span class={`link-state${live ? " live" : age >= kBehind ? " behind" : ""}${small ? " small" : ""}`} role="status" title={title}><i /><span>{text}</span></span>;
}

// Shown only after a lost connection, not during the first one.
function Notice() {
  const [now, set_now] = useState(connection.around.now());
  const waiting = connection.lost_once.value && (connection.link.value === "waiting" || connection.link.value === "connecting");
  useEffect(() => {
    if (!waiting) return undefined;
    set_now(connection.around.now());
    const timer = setInterval(() => set_now(connection.around.now()), 500);
    return () => clearInterval(timer);
  }, [waiting]);
  const restarts = connection.restarted.value;
  useEffect(() => {
    if (restarts > 0) toast(t("link.restarted"));
  }, [restarts]);
  if (!waiting) return null;
  const left = Math.max(0, Math.ceil((connection.retry_at.value - now) / 1000));
  return (
    <div class="notice" role="alert">
      <Icon name="warning" />
      <span>{connection.link.value === "connecting" || left === 0 ? t("link.lost_trying", { time: span(connection.age()) }) : t("link.lost", { n: left, time: span(connection.age()) })}</span>
      <button type="button" class="button" onClick={() => connection.retry_now()}>{t("link.retry")}</button>
    </div>
  );
}

const kThemes: [Theme, IconName][] = [["system", "screen"], ["light", "sun"], ["dark", "moon"]];

export const Choices = () => (
  <div class="choices">
    <div class="segments" role="group" aria-label={t("theme")}>
      {kThemes.map(([key, icon]) => (
        <button key={key} type="button" aria-pressed={theme.value === key} onClick={() => (theme.value = key)} aria-label={t(`theme.${key}`)} title={t(`theme.${key}`)}><Icon name={icon} /></button>
      ))}
    </div>
    <div class="segments" role="group" aria-label={t("language")}>
      {(["en", "zh"] as const).map((key) => (
        <button key={key} type="button" lang={key} aria-pressed={language.value === key} onClick={() => (language.value = key)}>{key === "en" ? "EN" : "中文"}</button>
      ))}
    </div>
  </div>
);
