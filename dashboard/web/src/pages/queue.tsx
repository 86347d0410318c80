// What waits, and why.
import { useEffect, useState } from "preact/hooks";
import { explain } from "../api";
import { reason_text, t, word } from "../i18n";
import type { Waiting } from "../live/protocol";
import { head_now, use_tick, use_topic } from "../live/use";
import { query, set_query } from "../router";
import { Card, Empty, Failed, Head, Loading, Rows, failure, resources_text, span } from "../ui/parts";
import { Table, type Column } from "../ui/table";

// The head's own words about a thing; asked again when its version changes.
export function Explained({ id, version }: { id: string; version: string }) {
  const [answer, set_answer] = useState<{ text?: string; error?: unknown }>({});
  useEffect(() => {
    let current = true;
    explain(id).then((found) => current && set_answer({ text: found.text }), (error: unknown) => current && set_answer({ error }));
    return () => { current = false; };
  }, [id, version]);
  if (answer.error) return <Failed {...failure(answer.error)} />;
  if (answer.text === undefined) return <Loading />;
  return <pre class="words" tabIndex={0}>{reason_text(answer.text)}</pre>;
}

export function Queue() {
  use_tick(1000);
  const queue = use_topic("queue", {}, 200);
  const chosen = query("id");
  // Beside an answer there is room for half of it: the reason is shortened, which the answer tells whole.
  const row = queue.get(chosen);
  const columns: Column<Waiting>[] = [
    { key: "display", title: t("col.what"), width: row ? 140 : 180, small: true, look: (row) => row.display || row.id, cell: (row) => <b class="row-link">{row.display || row.id.slice(0, 8)}</b> },
    { key: "kind", title: t("col.kind"), width: row ? 70 : 90, look: (row) => row.kind, cell: (row) => word(row.kind) },
    { key: "resources", title: t("col.asks"), width: row ? 110 : 150, small: true, look: (row) => resources_text(row.resources) },
    { key: "waiting", title: t("col.waiting"), width: row ? 90 : 110, right: true, small: true, look: (row) => head_now() - row.since_ms, cell: (row) => <span class="num">{span(head_now() - row.since_ms)}</span> },
    { key: "reason", title: t("col.why"), width: row ? 110 : 420, look: (row) => reason_text(row.reason), cell: (row) => <span title={reason_text(row.reason)}>{reason_text(row.reason)}</span> },
  ];
  return (
    <>
      <Head title={t("nav.queue")} />
      <div class={`page-body fill${row ? " split" : ""}`}>
        <Rows of={queue}>
          {(rows) => (
            <Table label={t("nav.queue")} rows={rows} columns={columns} id={(one) => one.id} order="-waiting" open={(one) => set_query({ id: one.id })}
              empty={<Empty icon="queue" title={t("queue.none")}>{t("queue.none.next")}</Empty>} />
          )}
        </Rows>
        {row && (
          <Card title={t("queue.why", { what: row.display || row.id.slice(0, 8) })} action={<button type="button" class="button" onClick={() => set_query({ id: null })}>{t("close")}</button>}>
            <Explained id={row.id} version={row.reason} />
          </Card>
        )}
      </div>
    </>
  );
}
