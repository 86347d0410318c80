// Tokens of the cluster, for operators.
import { useEffect, useState } from "preact/hooks";
import { call, may } from "../api";
import { date_time } from "../format";
import { locale, t, word } from "../i18n";
import type { Token } from "../live/protocol";
import { Confirm, use_act } from "../ui/confirm";
import { toast } from "../ui/toast";
import { Code, Dialog, Empty, Failed, Head, Loading, Select, State, failure } from "../ui/parts";
import { Table, type Column } from "../ui/table";

export function Tokens() {
  const [rows, set_rows] = useState<Token[] | null>(null);
  const [error, set_error] = useState<unknown>(null);
  const [dialog, set_dialog] = useState<"" | "new" | Token>("");
  const load = () => call<{ rows: Token[] }>("GET", "/api/v1/tokens").then((answer) => { set_rows(answer.rows); set_error(null); }, set_error);
  useEffect(() => {
    if (may("operator")) void load();
  }, []);
  if (!may("operator")) return <><Head title={t("nav.tokens")} /><Failed what={t("tokens.operator")} next={t("error.role.next")} /></>;
  const when = (ms: number | undefined) => <span class="num">{ms ? date_time(ms, locale()) : t("tokens.never")}</span>;
  const columns: Column<Token>[] = [
    { key: "id", title: t("col.id"), width: 140, small: true, look: (row) => row.id, cell: (row) => <code>{row.id.slice(0, 12)}</code> },
    { key: "role", title: t("col.role"), width: 110, small: true, look: (row) => row.role, cell: (row) => word(row.role) },
    { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: (row) => row.state ?? "active", cell: (row) => <State of={row.state ?? "active"} /> },
    { key: "note", title: t("col.note"), width: 200, look: (row) => row.note },
    { key: "created", title: t("col.created"), width: 180, look: (row) => row.created_ms, cell: (row) => when(row.created_ms) },
    { key: "expires", title: t("col.expires"), width: 180, look: (row) => row.expires_ms, cell: (row) => when(row.expires_ms) },
    { key: "do", card: "act", title: t("col.actions"), width: 100, look: () => "", cell: (row) => ((row.state ?? "active") === "active" ? <button type="button" class="button small danger" onClick={() => set_dialog(row)}>{t("tokens.revoke")}</button> : null) },
  ];
  return (
    <>
      <Head title={t("nav.tokens")} actions={<button type="button" class="button primary" onClick={() => set_dialog("new")}>{t("tokens.new")}</button>} />
      <div class="page-body fill">
        {error ? <Failed {...failure(error)} /> : !rows ? <Loading /> : (
          <Table label={t("nav.tokens")} rows={rows} columns={columns} id={(row) => row.id} order="-created" empty={<Empty icon="tokens" title={t("tokens.none")}>{t("tokens.none.next")}</Empty>} />
        )}
      </div>
      {dialog === "new" && <NewToken on_close={() => { set_dialog(""); void load(); }} />}
      {dialog && dialog !== "new" && <Revoke token={dialog} on_close={() => { set_dialog(""); void load(); }} />}
    </>
  );
}

function NewToken({ on_close }: { on_close: () => void }) {
  const [role, set_role] = useState("viewer");
  const [valid, set_valid] = useState("86400");
  const [made, set_made] = useState("");
  const make = async (event: Event) => {
    event.preventDefault();
    try {
      set_made((await call<{ token: string }>("POST", "/api/v1/tokens", { role, valid_for_s: Number(valid) })).token);
    } catch (error) {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    }
  };
  return (
    <Dialog title={t("tokens.new")} on_close={on_close}>
      {made ? <><p>{t("tokens.once")}</p><Code text={made} /></> : (
        <form onSubmit={(event) => void make(event as unknown as Event)}>
          <Select label={t("col.role")} value={role} on_change={set_role} options={["viewer", "operator", "driver", "join"].map((one) => [one, word(one)])} />
          <p class="quiet-line">{t(("role." + role) as "role.viewer")}</p>
          <Select label={t("tokens.valid")} value={valid} on_change={set_valid} options={[["3600", t("time.hour")], ["86400", t("time.day")], ["2592000", t("time.month")]]} />
          <footer><button type="submit" class="button primary">{t("tokens.make")}</button></footer>
        </form>
      )}
    </Dialog>
  );
}

function Revoke({ token, on_close }: { token: Token; on_close: () => void }) {
  const { busy, run } = use_act();
  const id = token.id.slice(0, 12);
  const revoke = async () => {
    const well = await run(async () => {
      await call("POST", `/api/v1/tokens/${encodeURIComponent(token.id)}:revoke`, {});
      return t("tokens.revoked", { id });
    });
    if (well) on_close();
  };
  return <Confirm title={t("tokens.revoke.title", { id })} explain={t("tokens.revoke.explain")} act={t("tokens.revoke")} danger busy={busy} on_act={() => void revoke()} on_close={on_close} />;
}
