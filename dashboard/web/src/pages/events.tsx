// The list of events, newest first.
import { clock, date_time, day_time } from "../format";
import { locale, reason_of, t } from "../i18n";
import type { Actor, Event } from "../live/protocol";
import { head_now, use_frozen, use_topic } from "../live/use";
import { language } from "../prefs";
import { go, link, query, set_query } from "../router";
import { is_over, kTrialsOver, sentence, text_of_event } from "./sentences";
import { Icon } from "../ui/icons";
import { looks } from "../ui/states";
import { Empty, Head, count, Rows, State, Toggle } from "../ui/parts";
import { Table, type Column } from "../ui/table";

// Merges consecutive events of the same text, level, cause and experiment into one row with a count; newest first.
export function gathered(events: Event[], most: number): { event: Event; times: number; of: Event[] }[] {
  const found: { event: Event; times: number; of: Event[] }[] = [];
  for (let i = events.length - 1; i >= 0; i--) {
    const last = found[found.length - 1];
    if (last && last.event.text === events[i].text && last.event.level === events[i].level && why(last.event) === why(events[i]) && last.event.fields?.experiment === events[i].fields?.experiment) {
      last.times++;
      last.of.push(events[i]);
    }
    else if (found.length === most) break;
    else found.push({ event: events[i], times: 1, of: [events[i]] });
  }
  return found;
}

export function EventLine({ event, times }: { event: Event; times: number }) {
  const [icon, tone] = looks(event.level);
  const over = is_over(event);
  return (
    <li class={`event tone-${tone}`}>
      <Icon name={icon} />
      <div>
        <p>{times > 1 ? (over ? kTrialsOver[language.value === "zh" ? 1 : 0] : text_of_event(event.text, language.value)) : <Sentence event={event} />}{times > 1 && <small class="times">× {count(times)}</small>}</p>
        {times > 1 && !over && Boolean(why(event)) && <p class="quiet-line">{why(event)}</p>}
        <time dateTime={new Date(event.time_ms).toISOString()} title={date_time(event.time_ms, locale())}>{clock(event.time_ms, locale())}</time>
      </div>
    </li>
  );
}

// Returns the text of a field in the page's language.
const field_of = (event: Event) => (field: string, text: string) => (field === "cause" || field === "why" ? reason_of({ reason: text, why: event.why }) : text);

// Shows an event as a sentence with links to the objects in it.
export function Sentence({ event }: { event: Event }) {
  const actors = use_topic("actors", {}, 1000);
  return <span class="sentence">{sentence(event, language.value, (id) => actors.get(id), field_of(event)).map((part, i) => (part.path ? <a key={i} href={link(part.path)}>{part.text}</a> : part.text))}</span>;
}
const said = (event: Event, actor_of: (id: string) => Actor | undefined) => sentence(event, language.value, actor_of, field_of(event)).map((part) => part.text).join("");

const shown = (value: unknown) => {
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return /^[0-9a-f]{32}$/.test(text) ? text.slice(0, 8) : text;
};
const fields_text = (event: Event) => Object.entries(event.fields ?? {}).map(([key, value]) => `${key}=${shown(value)}`).join("  ");
// Returns the most informative field, for short lists.
const why = (event: Event) => {
  const key = ["cause", "why", "reason", "error", "driver", "node", "name"].find((one) => event.fields?.[one]);
  return key ? field_of(event)(key, shown(event.fields![key])) : "";
};
// Returns the page of the event's object; null: none.
function about(event: Event): string[] | null {
  const { actor, experiment, trial, node } = event.fields ?? {};
  if (typeof actor === "string") return ["actors", actor];
  if (typeof experiment === "string" && event.text === "trial failed" && typeof trial === "string") return ["experiments", experiment, "trials", trial];
  if (typeof experiment === "string") return ["experiments", experiment];
  return typeof node === "string" ? ["nodes", node] : null;
}

// Formats the time, with the date unless it is today.
const clock_of_day = (ms: number) => (new Date(ms).toDateString() === new Date(head_now()).toDateString() ? clock(ms, locale()) : day_time(ms, head_now(), locale()));

export function Events() {
  const events = use_topic("events", {}, 200);
  const held = query("hold") === "1";
  const rows = use_frozen(events.list(), held);
  const actors = use_topic("actors", {}, 1000);
  const text = (row: Event) => said(row, (id) => actors.get(id));
  const columns: Column<Event>[] = [
    { key: "time", title: t("col.time"), width: 112, small: true, look: (row) => row.time_ms, cell: (row) => <time class="num" title={date_time(row.time_ms, locale())}>{clock_of_day(row.time_ms)}</time> },
    { key: "level", card: "side", title: t("col.level"), width: 96, look: (row) => row.level, cell: (row) => <State of={row.level} /> },
    { key: "text", card: "wide", title: t("col.what"), width: 560, small: true, look: text, cell: (row) => <span title={text(row)}><Sentence event={row} /></span> },
    { key: "fields", card: "never", title: t("col.fields"), width: 220, look: fields_text, cell: (row) => <code class="soft" title={fields_text(row)}>{fields_text(row)}</code> },
  ];
  return (
    <>
      <Head title={t("nav.events")} />
      <div class="page-body fill">
        <Rows of={events}>
          {() => (
            <Table label={t("nav.events")} rows={rows} columns={columns} id={(row) => row.id} order="-time" open={(row) => { const path = about(row); if (path) go(path); }}
              tools={<Toggle label={t("events.hold")} on={held} on_change={(on) => set_query({ hold: on ? "1" : null })} />}
              empty={<Empty icon="events" title={t("events.none")}>{t("events.none.next")}</Empty>} />
          )}
        </Rows>
      </div>
    </>
  );
}
