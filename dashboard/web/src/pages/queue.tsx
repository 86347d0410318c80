// The queue: waiting requests and why each waits.
import { useMemo } from "preact/hooks";
import { reason_of, t, word } from "../i18n";
import type { Waiting } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { link, query, set_query } from "../router";
import { actor_name, short_class } from "../ui/names";
import { Card, Empty, Head, Middle, Rows, count, resources_text, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { Explained } from "./explained";
import { fold, path_of, type Folded } from "./queue_rows";

const name_of = (row: { kind: string; id: string; name?: string; display?: string; class_name?: string }) => (row.kind === "group" ? row.name || row.id.slice(0, 8) : row.kind === "trial" ? row.display || row.id.slice(0, 8) : actor_name(row));
// Adds the kind if the name alone is ambiguous.
export const request_name = (row: Parameters<typeof name_of>[0]) => (row.kind === "group" ? `${word("group")} ${name_of(row)}` : name_of(row));
const title_of = (row: Folded) => (row.members.length > 1
  ? t("queue.fold", { n: count(row.members.length), kind: kind_of_many(row.kind), of: row.experiment || short_class(row.class_name) || row.display }) : name_of(row));
const kind_of_many = (kind: string) => (["trial", "task", "actor", "group"].includes(kind) ? t(`queue.kinds.${kind}` as "queue.kinds.trial") : word(kind));

// Link to the object that a request waits for.
function Blocked({ row }: { row: Waiting }) {
  const by = row.blocker;
  if (!by) return <span class="soft">–</span>;
  const [before, after] = t(by.why === "reserved" ? "queue.reserved" : by.why === "group" ? "queue.in_group" : "queue.ahead", { node: by.node ?? "", what: "\u0000" }).split("\u0000");
  return <span>{before}<a href={link(path_of(by))}>{request_name(by)}</a>{after}</span>;
}

export function Queue() {
  use_tick(1000);
  const queue = use_topic("queue", {}, 200);
  const chosen = query("id");
  const rows_now = queue.list();
  const rows = useMemo(() => fold(rows_now), [rows_now]);
  // The table is narrow while an explanation is open beside it, so its columns are narrower.
  const row = rows.find((one) => one.members.some((member) => member.id === chosen));
  const place = rows_now.some((one) => one.position);
  const all: (Column<Folded> | false)[] = [
    place && { key: "position", title: t("col.position"), width: 74, right: true, look: (row) => row.position, cell: (row) => <span class="num">{count(row.position)}</span> },
    { key: "display", title: t("col.what"), width: row ? 140 : 200, small: true, look: title_of, cell: (row) => <b class="row-link"><Middle text={title_of(row)} /></b> },
    { key: "kind", card: "side", title: t("col.kind"), width: row ? 70 : 110, small: true, look: (row) => row.kind, cell: (row) => word(row.kind) },
    { key: "resources", title: t("col.asks"), width: row ? 110 : 150, small: true, look: (row) => resources_text(row.resources) },
    { key: "waiting", title: t("col.waiting"), width: row ? 90 : 110, right: true, small: true, look: (row) => head_now() - row.since_ms, cell: (row) => <span class="num">{span(head_now() - row.since_ms)}</span> },
    rows_now.some((one) => one.blocker) && !row && { key: "blocker", title: t("col.blocker"), width: 240, look: (row) => row.blocker && name_of(row.blocker), cell: (row) => <Blocked row={row} /> },
    !row && { key: "experiment", title: t("experiment.one"), width: 130, look: (row) => row.experiment, cell: (row) => (row.experiment ? <a href={link(["experiments", row.experiment])}><Middle text={row.experiment} /></a> : <span class="soft">–</span>) },
    { key: "reason", card: "wide", title: t("col.why"), width: row ? 110 : 380, look: (row) => reason_of(row), cell: (row) => <span title={reason_of(row)}>{reason_of(row)}</span> },
  ];
  const columns = all.filter((column) => column !== false);
  return (
    <>
      <Head title={t("nav.queue")} />
      <div class={`page-body fill${row ? " split" : ""}`}>
        <Rows of={queue}>
          {() => (
            <Table label={t("nav.queue")} rows={rows} columns={columns} id={(one) => one.id} order={place ? "position" : "-waiting"} open={(one) => set_query({ id: one.id })}
              empty={<Empty icon="queue" title={t("queue.none")}>{t("queue.none.next")}</Empty>} />
          )}
        </Rows>
        {row && (
          <Card title={t("queue.why", { what: title_of(row) })} action={<button type="button" class="button" onClick={() => set_query({ id: null })}>{t("close")}</button>}>
            <p class="quiet-line"><a href={link(path_of(row))}>{name_of(row)}</a>{row.bundles ? ` · ${t("queue.bundles", { n: row.bundles })}` : ""}</p>
            {row.blocker && <p class="reason tone-warn"><Blocked row={row} /></p>}
            <Explained id={row.id} version={row.reason} />
            {row.members.length > 1 && (
              <>
                <h3>{t("queue.members")}</h3>
                <ul class="plain-list">{row.members.slice(0, 100).map((one) => <li key={one.id}><a href={link(path_of(one))}>{name_of(one)}</a> <small class="soft num">{span(head_now() - one.since_ms)}</small></li>)}</ul>
              </>
            )}
          </Card>
        )}
      </div>
    </>
  );
}
