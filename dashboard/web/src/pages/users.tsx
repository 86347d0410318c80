// Users of the cluster, for operators.
import { useEffect, useState } from "preact/hooks";
import { call, may } from "../api";
import { date_time } from "../format";
import { locale, t, word } from "../i18n";
import { Confirm, use_act } from "../ui/confirm";
import { Dialog, Empty, Failed, Head, Loading, Select, State, failure } from "../ui/parts";
import { Table, type Column } from "../ui/table";

export interface User {
  name: string;
  role: string;
  disabled: boolean;
  full_name: string;
  mail: string;
  password_set: boolean;
  created_ms: number;
  subject: string;
  groups: string[];
}
type Asked = { what: "new" } | { what: "password" | "delete" | "disable"; user: User };

const kRoles = ["user", "operator", "viewer"];

// The members of a request; the others are for replies only.
const put = ({ name, role, disabled, full_name, mail, subject }: User, password = "") =>
  call("POST", "/api/v1/users", { user: { name, role, disabled, full_name, mail, subject }, ...(password ? { password } : {}) });

export function Users() {
  const [rows, set_rows] = useState<User[] | null>(null);
  const [error, set_error] = useState<unknown>(null);
  const [asked, set_asked] = useState<Asked | null>(null);
  const load = () => call<{ rows: User[] }>("GET", "/api/v1/users").then((answer) => { set_rows(answer.rows); set_error(null); }, set_error);
  useEffect(() => {
    if (may("operator")) void load();
  }, []);
  if (!may("operator")) return <><Head title={t("nav.users")} /><Failed what={t("users.operator")} next={t("error.role.next")} /></>;
  const state = (row: User) => (row.disabled ? "disabled" : row.password_set || row.subject ? "active" : "no_password");
  const columns: Column<User>[] = [
    { key: "name", title: t("col.user"), width: 140, look: (row) => row.name },
    { key: "role", title: t("col.role"), width: 110, small: true, look: (row) => row.role, cell: (row) => word(row.role) },
    { key: "state", card: "side", title: t("col.state"), width: 120, small: true, look: state, cell: (row) => <State of={state(row)} /> },
    { key: "full_name", title: t("users.full_name"), width: 180, look: (row) => row.full_name },
    { key: "mail", title: t("users.mail"), width: 200, look: (row) => row.mail },
    { key: "groups", title: t("users.groups"), width: 160, look: (row) => row.groups.join(", ") },
    { key: "created", title: t("col.created"), width: 180, look: (row) => row.created_ms, cell: (row) => <span class="num">{date_time(row.created_ms, locale())}</span> },
    { key: "do", card: "act", title: t("col.actions"), width: 300, look: () => "", cell: (row) => (
      <span class="pair">
        <button type="button" class="button small" onClick={() => set_asked({ what: "password", user: row })}>{t("users.password")}</button>
        <button type="button" class="button small" onClick={() => set_asked({ what: "disable", user: row })}>{t(row.disabled ? "users.enable" : "users.disable")}</button>
        <button type="button" class="button small danger" onClick={() => set_asked({ what: "delete", user: row })}>{t("users.delete")}</button>
      </span>
    ) },
  ];
  const close = () => {
    set_asked(null);
    void load();
  };
  return (
    <>
      <Head title={t("nav.users")} actions={<button type="button" class="button primary" onClick={() => set_asked({ what: "new" })}>{t("users.new")}</button>} />
      <div class="page-body fill">
        {error ? <Failed {...failure(error)} /> : !rows ? <Loading /> : (
          <Table label={t("nav.users")} rows={rows} columns={columns} id={(row) => row.name} order="name" empty={<Empty icon="users" title={t("users.none")}>{t("users.none.next")}</Empty>} />
        )}
      </div>
      {asked?.what === "new" && <NewUser on_close={close} />}
      {asked?.what === "password" && <NewPassword user={asked.user} on_close={close} />}
      {(asked?.what === "delete" || asked?.what === "disable") && <Change asked={asked.what} user={asked.user} on_close={close} />}
    </>
  );
}

function Text({ label, value, type = "text", on_change }: { label: string; value: string; type?: string; on_change: (value: string) => void }) {
  return (
    <label class="field">
      <span>{label}</span>
      <input type={type} value={value} spellcheck={false} autocomplete={type === "password" ? "new-password" : "off"} onInput={(event) => on_change(event.currentTarget.value)} />
    </label>
  );
}

function NewUser({ on_close }: { on_close: () => void }) {
  const [name, set_name] = useState("");
  const [role, set_role] = useState("user");
  const [full_name, set_full_name] = useState("");
  const [mail, set_mail] = useState("");
  const [password, set_password] = useState("");
  const { busy, run } = use_act();
  const make = async (event: { preventDefault(): void }) => {
    event.preventDefault();
    const user = { name: name.trim(), role, disabled: false, full_name, mail, password_set: false, created_ms: 0, subject: "", groups: [] };
    const well = await run(async () => {
      await put(user, password);
      return t("users.added", { user: user.name });
    });
    if (well) on_close();
  };
  return (
    <Dialog title={t("users.new")} on_close={on_close}>
      <form onSubmit={(event) => void make(event)}>
        <Text label={t("col.user")} value={name} on_change={set_name} />
        <Select label={t("col.role")} value={role} on_change={set_role} options={kRoles.map((one) => [one, word(one)])} />
        <p class="quiet-line">{t(("role." + role) as "role.viewer")}</p>
        <Text label={t("users.full_name")} value={full_name} on_change={set_full_name} />
        <Text label={t("users.mail")} type="email" value={mail} on_change={set_mail} />
        <Text label={t("signin.password")} type="password" value={password} on_change={set_password} />
        <footer><button type="submit" class="button primary" disabled={busy || !name.trim()}>{t("users.add")}</button></footer>
      </form>
    </Dialog>
  );
}

function NewPassword({ user, on_close }: { user: User; on_close: () => void }) {
  const [password, set_password] = useState("");
  const { busy, run } = use_act();
  const change = async (event: { preventDefault(): void }) => {
    event.preventDefault();
    const well = await run(async () => {
      await put(user, password);
      return t("users.changed", { user: user.name });
    });
    if (well) on_close();
  };
  return (
    <Dialog title={t("users.password.title", { user: user.name })} on_close={on_close}>
      <form onSubmit={(event) => void change(event)}>
        <Text label={t("signin.password")} type="password" value={password} on_change={set_password} />
        <p class="quiet-line">{t("users.password.explain")}</p>
        <footer><button type="submit" class="button primary" disabled={busy || !password}>{t("users.password")}</button></footer>
      </form>
    </Dialog>
  );
}

function Change({ asked, user, on_close }: { asked: "delete" | "disable"; user: User; on_close: () => void }) {
  const { busy, run } = use_act();
  const deletes = asked === "delete";
  const act = t(deletes ? "users.delete" : user.disabled ? "users.enable" : "users.disable");
  const change = async () => {
    const well = await run(async () => {
      if (deletes) await call("DELETE", `/api/v1/users/${encodeURIComponent(user.name)}`);
      else await put({ ...user, disabled: !user.disabled });
      return t(deletes ? "users.deleted" : "users.changed", { user: user.name });
    });
    if (well) on_close();
  };
  const explain = t(deletes ? "users.delete.explain" : user.disabled ? "users.enable.explain" : "users.disable.explain");
  return <Confirm title={t("users.change.title", { act, user: user.name })} explain={explain} act={act} danger={!user.disabled || deletes} busy={busy} on_act={() => void change()} on_close={on_close} />;
}
