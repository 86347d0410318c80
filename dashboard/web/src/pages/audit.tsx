// The audit log: requests to change the cluster with their tokens and outcomes, newest first; for operators.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, call, may } from "../api";
import { date_time } from "../format";
import { locale, t, word, type Key } from "../i18n";
import { en } from "../i18n/en";
import type { AuditEntry } from "../live/protocol";
import { connection, use_topic } from "../live/use";
import { go, link } from "../router";
import { Empty, Failed, Head, Loading, Middle, State, TokenLink, failure } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { finder, joined, kEntriesMax, outcome_of, trial_of } from "./audit_rows";

const kEvery = 3000;  // In ms. The audit log is not a topic of the live connection, so the page polls.

// Loads all entries once, then requests newer ones every kEvery.
function use_entries(): { rows: AuditEntry[] | null; error: unknown } {
  const [rows, set_rows] = useState<AuditEntry[] | null>(null);
  const [error, set_error] = useState<unknown>(null);
  const restarts = connection.restarted.value;
  useEffect(() => {
    if (!may("operator")) return undefined;
    let gone = false;
    let known: AuditEntry[] | null = null;  // Reset after a restart of the head, since its log may differ.
    const load = () => {
      if (known && document.visibilityState === "hidden") return;
      const newer = known?.length ? "&filter=" + encodeURIComponent(`id>${known[0].id}`) : "";
      call<{ rows: AuditEntry[] }>("GET", `/api/v1/audit?page_size=${kEntriesMax}${newer}`).then(
        (answer) => {
          if (gone) return;
          known = joined(known ?? [], answer.rows);
          set_rows(known);
          set_error(null);
        },
        (failed: unknown) => { if (!gone && !(known && failed instanceof ApiError && failed.status === 0)) set_error(failed); });
    };
    load();
    const timer = setInterval(load, kEvery);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [restarts]);
  return { rows, error };
}

// Names the action in the page's language: "Stop trial".
function action_text(row: AuditEntry): string {
  const key = (row.action === "add" && trial_of(row) ? "audit.act.clone" : "audit.act." + row.action) as Key;
  return key in en ? t(key, { what: word(trial_of(row) ? "trial" : "experiment") }) : row.action;
}

export function Audit() {
  const { rows, error } = use_entries();
  const nodes = use_topic("nodes", {}, 1000).list();
  const actors = use_topic("actors", {}, 1000).list();
  const experiments = use_topic("experiments", {}, 1000).list();
  const find = useMemo(() => finder(nodes, actors, experiments), [nodes, actors, experiments]);
  const columns = useMemo((): Column<AuditEntry>[] => {
    const object = (row: AuditEntry) => {
      const { text, role, path, query } = find(row);
      const shown = path ? <a href={link(path, query)}><Middle text={text} /></a> : <Middle text={text} />;
      return text ? <span title={row.object}>{shown}{role && <small class="soft"> {word(role)}</small>}</span> : "";
    };
    return [
      { key: "time", title: t("col.time"), width: 210, small: true, look: (row) => row.time_ms, cell: (row) => <time class="num" dateTime={new Date(row.time_ms).toISOString()}>{date_time(row.time_ms, locale())}</time> },
      { key: "by", title: t("col.token"), width: 120, small: true, look: (row) => row.by, cell: (row) => row.by && <TokenLink id={row.by} /> },
      { key: "action", card: "title", title: t("col.action"), width: 160, look: (row) => `${row.action} ${action_text(row)}`, cell: (row) => <b title={row.action}>{action_text(row)}</b> },
      { key: "object", title: t("col.object"), width: 240, small: true, look: (row) => [row.object, find(row).text].join(" ").trim(), cell: object },
      { key: "outcome", card: "side", title: t("col.outcome"), width: 112, look: (row) => `${outcome_of(row)} ${row.outcome}`, cell: (row) => <span title={row.outcome}><State of={outcome_of(row)} /></span> },
      { key: "message", card: "wide", title: t("col.message"), width: 300, look: (row) => row.message, cell: (row) => <span class="soft" title={row.message}>{row.message}</span> },
    ];
  }, [find]);
  const open = (row: AuditEntry) => {
    const { path, query } = find(row);
    if (path) go(path, query);
  };
  if (!may("operator")) return <><Head title={t("nav.audit")} /><Failed what={t("audit.operator")} next={t("error.role.next")} /></>;
  return (
    <>
      <Head title={t("nav.audit")} />
      <div class="page-body fill">
        {error ? <Failed {...failure(error)} /> : !rows ? <Loading /> : (
          <Table label={t("nav.audit")} rows={rows} columns={columns} id={(row) => String(row.id)} order="-time" open={open} empty={<Empty icon="audit" title={t("audit.none")}>{t("audit.none.next")}</Empty>} />
        )}
      </div>
    </>
  );
}
