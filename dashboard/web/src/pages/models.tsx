// The model registry: the list of models, a model with its versions, and a version with its checkpoint. Loaded when one is opened.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { ApiError, call, may } from "../api";
import { date_time, day_time } from "../format";
import { locale, t } from "../i18n";
import { use_answer } from "../live/poll";
import { head_now } from "../live/use";
import { go, link, query, route, set_query } from "../router";
import { Confirm, use_act } from "../ui/confirm";
import { Area, Text } from "../ui/fields";
import { Icon } from "../ui/icons";
import { NoteField, NoteText } from "../ui/note";
import { Card, Code, Dialog, Empty, Failed, Head, Loading, Middle, Toggle, TokenLink, count, failure, num, size } from "../ui/parts";
import { Table, type Column } from "../ui/table";
import { trial_row, type Configured } from "./configured";
import { m } from "./model_texts";
import { aliases_text, label_changes, labels_of, metadata_of, metadata_text, path_of, type Model, type ModelVersion } from "./model_rows";
import { in_shell } from "../ui/names";
import { TagList } from "./notes";

const kRows = 10_000;
const kEvery = 5000;  // In ms.

const when = (ms: number) => <span class="num" title={date_time(ms, locale())}>{day_time(ms, head_now(), locale())}</span>;
const trail_of = (model?: string) => [{ text: t("nav.models"), path: ["models"] }, ...(model === undefined ? [] : [{ text: model, path: ["models", model] }])];

export function Models() {
  const [, model, version] = route.value.path;
  if (version !== undefined) return <VersionPage key={`${model}@${version}`} name={model} version={version} />;
  return model === undefined ? <List /> : <ModelPage key={model} name={model} />;
}

const Tags = ({ of }: { of: string[] }) => (of.length ? <TagList tags={of} /> : <span class="soft">–</span>);

// ---- the list ----

const columns = (): Column<Model>[] => [
  { key: "name", card: "title", title: m("name"), width: 300, small: true, look: (row) => row.name, cell: (row) => <a href={link(["models", row.name])} title={row.description || row.name}>{row.name}</a> },
  { key: "versions", title: m("versions"), width: 80, right: true, small: true, look: (row) => row.versions, cell: (row) => <span class="num">{count(row.versions)}</span> },
  { key: "aliases", title: m("aliases"), width: 160, small: true, look: (row) => aliases_text(row.aliases) },
  { key: "labels", title: m("labels"), width: 140, look: (row) => row.labels.join(" "), cell: (row) => <Tags of={row.labels} /> },
  { key: "workspace", title: m("workspace"), width: 110, look: (row) => row.workspace },
  { key: "user", title: t("col.owner"), width: 110, look: (row) => row.user || row.owner, cell: (row) => row.user || <TokenLink id={row.owner} /> },
  { key: "changed", title: m("changed"), width: 110, look: (row) => row.changed_ms, cell: (row) => when(row.changed_ms) },
  { key: "state", card: "side", title: t("col.state"), width: 90, look: (row) => (row.archived ? m("archived") : "") },
];

function List() {
  const { answer, error, again } = use_answer<{ rows: Model[] }>(`/api/v1/models?page_size=${kRows}`, kEvery);
  const [creating, set_creating] = useState(false);
  const archived = query("archived") === "1";
  const all = answer?.rows ?? [];
  const hidden = all.filter((row) => row.archived).length;
  const rows = archived ? all : all.filter((row) => !row.archived);
  return (
    <>
      <Head title={t("nav.models")} actions={may("user") && <button type="button" class="button primary" onClick={() => set_creating(true)}>{m("new")}</button>} />
      <div class="page-body fill">
        {!answer ? error ? <Failed {...failure(error)} /> : <Loading /> : (
          <Table label={t("nav.models")} rows={rows} columns={columns()} id={(row) => String(row.id)} order="-changed"
            tools={hidden > 0 && <Toggle label={m("archived.show", { n: count(hidden) })} on={archived} on_change={(on) => set_query({ archived: on ? "1" : null })} />}
            empty={<Empty icon="models" title={m("none")} code="volador model create digits">{m("none.next")}{hidden > 0 && <> <button type="button" class="link" onClick={() => set_query({ archived: "1" })}>{m("archived.show", { n: count(hidden) })}</button></>}</Empty>} />
        )}
      </div>
      {creating && <NewModel on_close={() => { set_creating(false); again(); }} />}
    </>
  );
}

function NewModel({ on_close }: { on_close: () => void }) {
  const [name, set_name] = useState("");
  const [description, set_description] = useState("");
  const [labels, set_labels] = useState("");
  const [workspace, set_workspace] = useState("");
  const { busy, run } = use_act();
  const make = async (event: Event) => {
    event.preventDefault();
    const well = await run(async () => {
      const made = await call<Model>("POST", "/api/v1/models", { model: { name: name.trim(), description, labels: labels_of(labels), workspace } });
      return m("created", { name: made.name });
    });
    if (well) go(["models", name.trim()]);
    if (well) on_close();
  };
  return (
    <Dialog title={m("new")} on_close={on_close}>
      <form onSubmit={(event) => void make(event)}>
        <Text label={m("name")} value={name} hint={m("name.hint")} on_change={set_name} />
        <Text label={m("description")} value={description} on_change={set_description} />
        <Text label={m("labels")} value={labels} hint={m("labels.hint")} on_change={set_labels} />
        <Text label={m("workspace")} value={workspace} on_change={set_workspace} />
        <footer><button type="submit" class="button primary" disabled={busy || !name.trim()}>{m("create")}</button></footer>
      </form>
    </Dialog>
  );
}

// ---- what a model and a version share ----

const Facts = ({ title, of }: { title: string; of: [string, ComponentChildren][] }) => (
  <Card title={title}>
    <dl class="facts">{of.filter(([, value]) => value !== "" && value !== false && value !== undefined).map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
  </Card>
);

const Notes = ({ text }: { text: string }) => <Card title={m("notes")}>{text ? <NoteText text={text} /> : <p class="quiet-line">{m("notes.none")}</p>}</Card>;

const Metadata = ({ of }: { of: Record<string, unknown> | null }) => (metadata_text(of) ? <Card title={m("metadata")}><Code text={metadata_text(of)} /></Card> : null);

const Download = ({ of }: { of: string }) => (
  <Card title={m("download")}>
    <p class="quiet-line">{m("download.explain")}</p>
    <Code text={`volador model download ${in_shell(of)}`} />
  </Card>
);

interface Edited {
  name: string;
  text: string;  // Description or comment.
  notes: string;
  labels: string[];
  workspace: string;
  metadata: Record<string, unknown> | null;
}
// `save` sends the edit; `workspace`: whether it has one.
function Edit({ title, of, text, workspace, save, on_close }: { title: string; of: Edited; text: string; workspace?: boolean; save: (edited: Edited) => Promise<string>; on_close: () => void }) {
  const [edited, set] = useState<Edited>(of);
  const [labels, set_labels] = useState(of.labels.join(", "));
  const [metadata, set_metadata] = useState(metadata_text(of.metadata));
  const { busy, run } = use_act();
  const parsed = metadata_of(metadata);
  const change = (part: Partial<Edited>) => set({ ...edited, ...part });
  const submit = async (event: Event) => {
    event.preventDefault();
    if (parsed === null) return;
    if (await run(() => save({ ...edited, labels: labels_of(labels), metadata: parsed }))) on_close();
  };
  return (
    <Dialog title={title} wide on_close={on_close}>
      <form onSubmit={(event) => void submit(event)}>
        <Text label={m("name")} value={edited.name} on_change={(name) => change({ name })} />
        <Text label={text} value={edited.text} on_change={(value) => change({ text: value })} />
        <Text label={m("labels")} value={labels} hint={m("labels.hint")} on_change={set_labels} />
        {workspace && <Text label={m("workspace")} value={edited.workspace} on_change={(value) => change({ workspace: value })} />}
        <NoteField label={m("notes")} text={edited.notes}><textarea class="text-input" rows={8} aria-label={m("notes")} value={edited.notes} onInput={(event) => change({ notes: event.currentTarget.value })} /></NoteField>
        <Area label={m("metadata")} value={metadata} rows={4} error={parsed === null ? m("metadata.wrong") : undefined} on_change={set_metadata} />
        <footer>
          <button type="button" class="button" onClick={on_close}>{t("cancel")}</button>
          <button type="submit" class="button primary" disabled={busy || parsed === null}>{t("save")}</button>
        </footer>
      </form>
    </Dialog>
  );
}

function Promote({ model, version, on_close }: { model: Model; version: number; on_close: () => void }) {
  const [alias, set_alias] = useState("production");
  const { busy, run } = use_act();
  const act = async () => {
    const well = await run(async () => {
      await call("POST", `${path_of(model.name)}:edit`, { set_aliases: { [alias]: version } });
      return m("promote.done", { alias, version });
    });
    if (well) on_close();
  };
  return (
    <Confirm title={m("promote.title", { version })} explain={m("promote.explain", { name: model.name, alias })} command={`volador model promote ${in_shell(model.name)} ${version} ${in_shell(alias || "ALIAS")}`}
      act={m("promote")} busy={busy || !alias} on_act={() => void act()} on_close={on_close}>
      <Text label={m("alias")} value={alias} choices={[...new Set(["production", "staging", ...Object.keys(model.aliases)])]} on_change={(text) => set_alias(text.trim())} />
    </Confirm>
  );
}

function Aliases({ of, again }: { of: Model; again: () => void }) {
  const { busy, run } = use_act();
  const remove = async (alias: string) => {
    await run(async () => {
      await call("POST", `${path_of(of.name)}:edit`, { set_aliases: { [alias]: 0 } });
      return m("alias.removed", { alias });
    });
    again();
  };
  const all = Object.entries(of.aliases).sort(([a], [b]) => a.localeCompare(b));
  if (!all.length) return null;
  return (
    <Card title={m("aliases")}>
      <div class="tags editable">
        {all.map(([alias, version]) => (
          <span key={alias} class="tag">
            <a href={link(["models", of.name, String(version)])}>{alias} → {version}</a>
            {may("user") && !of.archived && <button type="button" disabled={busy} onClick={() => void remove(alias)} aria-label={m("alias.remove", { alias })} title={m("alias.remove", { alias })}><Icon name="close" /></button>}
          </span>
        ))}
      </div>
    </Card>
  );
}

const Absent = ({ name, error }: { name: string; error: unknown }) => {
  const { what, next } = failure(error);
  const gone = error instanceof ApiError && error.status === 404;
  return (
    <>
      <Head trail={trail_of()} title={name} />
      {error ? <Failed what={gone ? what || m("unknown", { name }) : what} next={next} /> : <Loading />}
    </>
  );
};

// ---- a model ----

type Asked = "edit" | "archive" | "delete";

export function ModelPage({ name }: { name: string }) {
  const { answer: model, error, again } = use_answer<Model>(path_of(name), kEvery);
  const versions = use_answer<{ rows: ModelVersion[] }>(`${path_of(name)}/versions?page_size=${kRows}`, kEvery);
  const [asked, set_asked] = useState<Asked | null>(null);
  const [promoting, set_promoting] = useState<number | null>(null);
  const { busy, run } = use_act();
  if (!model) return <Absent name={name} error={error} />;
  const refresh = () => {
    again();
    versions.again();
  };
  const close = () => {
    set_asked(null);
    set_promoting(null);
    refresh();
  };
  const archive = async (archived: boolean) => {
    await run(async () => {
      await call("POST", `${path_of(model.name)}:edit`, { archived });
      return m(archived ? "archive.done" : "unarchive.done", { name: model.name });
    });
    close();
  };
  const remove = async () => {
    const well = await run(async () => {
      await call("POST", `${path_of(model.name)}:delete`, {});
      return m("delete.done", { name: model.name });
    });
    if (well) go(["models"]);
    else close();
  };
  const save = async (edited: Edited) => {
    const renamed = edited.name !== model.name;
    await call("POST", `${path_of(model.name)}:edit`, {
      ...(renamed ? { name: edited.name } : {}), description: edited.text, notes: edited.notes, workspace: edited.workspace, metadata: edited.metadata, ...label_changes(model.labels, edited.labels),
    });
    if (renamed) go(["models", edited.name]);
    return m("saved", { name: edited.name });
  };
  const columns: Column<ModelVersion>[] = [
    { key: "version", card: "title", title: m("version"), width: 84, small: true, right: true, look: (row) => row.version, cell: (row) => <a class="num" href={link(["models", model.name, String(row.version)])}>{count(row.version)}</a> },
    { key: "aliases", title: m("aliases"), width: 100, small: true, look: (row) => row.aliases.join(" "), cell: (row) => <Tags of={row.aliases} /> },
    { key: "name", title: m("name"), width: 90, look: (row) => row.name },
    { key: "checkpoint", title: m("checkpoint"), width: 110, look: (row) => row.checkpoint, cell: (row) => <code title={row.checkpoint}><Middle text={row.checkpoint} /></code> },
    { key: "metric", title: t("col.metric"), width: 80, right: true, small: true, look: (row) => row.checkpoint_info?.metric ?? null, cell: (row) => <span class="num">{num(row.checkpoint_info?.metric)}</span> },
    { key: "size", title: t("col.size"), width: 70, right: true, look: (row) => row.checkpoint_info?.bytes ?? null, cell: (row) => <span class="num">{size(row.checkpoint_info?.bytes)}</span> },
    { key: "comment", title: m("comment"), width: 86, look: (row) => row.comment },
    { key: "created", title: t("col.created"), width: 90, look: (row) => row.created_ms, cell: (row) => when(row.created_ms) },
    ...(may("user") && !model.archived ? [{ key: "do", card: "act" as const, title: t("col.actions"), width: 90, look: () => "", cell: (row: ModelVersion) => <button type="button" class="button small" onClick={() => set_promoting(row.version)}>{m("promote")}</button> }] : []),
  ];
  const actions = may("user") && (
    <>
      {!model.archived && <button type="button" class="button" onClick={() => set_asked("edit")}>{m("edit")}</button>}
      <button type="button" class="button" disabled={busy} onClick={() => (model.archived ? void archive(false) : set_asked("archive"))}>{m(model.archived ? "unarchive" : "archive")}</button>
      <button type="button" class="button" onClick={() => set_asked("delete")}>{m("delete")}</button>
    </>
  );
  const shell = in_shell(model.name);
  return (
    <>
      <Head trail={trail_of()} title={model.name} facts={<p class="sub">{model.archived && <span>{m("archived")}</span>}{model.description && <span>{model.description}</span>}</p>} actions={actions} />
      <div class="page-body">
        <div class="columns">
          <div class="stack">
            <Card title={m("versions")}>
              {versions.error ? <Failed {...failure(versions.error)} /> : !versions.answer ? <Loading /> : (
                <Table label={m("versions")} bare prefix="versions." height={460} rows={versions.answer.rows} columns={columns} id={(row) => String(row.version)} order="-version"
                  empty={<Empty icon="models" title={m("no_versions")} code={`volador model register-version ${shell} CHECKPOINT`}>{m("no_versions.next")}</Empty>} />
              )}
            </Card>
            <Notes text={model.notes} />
          </div>
          <div class="stack side">
            <Aliases of={model} again={refresh} />
            <Facts title={m("about")} of={[
              [m("labels"), model.labels.length > 0 && <TagList tags={model.labels} />],
              [m("workspace"), model.workspace],
              [t("col.owner"), model.user || <TokenLink id={model.owner} />],
              [t("col.created"), date_time(model.created_ms, locale())],
              [m("changed"), date_time(model.changed_ms, locale())],
              [m("id"), count(model.id)],
            ]} />
            {model.versions > 0 && <Download of={model.name} />}
            <Metadata of={model.metadata} />
          </div>
        </div>
      </div>
      {asked === "edit" && <Edit title={m("edit.title", { name: model.name })} text={m("description")} workspace of={{ ...model, text: model.description }} save={save} on_close={close} />}
      {asked === "archive" && <Confirm title={m("archive.title", { name: model.name })} explain={m("archive.explain")} command={`volador model archive ${shell}`} act={m("archive")} busy={busy} on_act={() => void archive(true)} on_close={close} />}
      {asked === "delete" && <Confirm title={m("delete.title", { name: model.name })} explain={m("delete.explain")} command={`volador model delete ${shell}`} act={m("delete")} danger busy={busy} on_act={() => void remove()} on_close={close} />}
      {promoting !== null && <Promote model={model} version={promoting} on_close={close} />}
    </>
  );
}

// ---- a version ----

// The trial that saved the checkpoint, as a link to its page.
function TrialLink({ experiment, trial }: { experiment: number; trial: number }) {
  const { answer } = use_answer<Configured>(`/api/v1/determined/experiments/${experiment}`, 60_000);
  const row = trial_row(trial);
  return answer?.run ? <><a href={link(["experiments", answer.run, "trials", row])}>{row}</a> · <a href={link(["experiments", answer.run], { tab: "checkpoints" })}>{answer.run}</a></> : <>{row}</>;
}

export function VersionPage({ name, version }: { name: string; version: string }) {
  const { answer: of, error, again } = use_answer<ModelVersion>(`${path_of(name)}/versions/${encodeURIComponent(version)}`, kEvery);
  const { answer: model, again: model_again } = use_answer<Model>(path_of(name), kEvery);
  const [asked, set_asked] = useState<"edit" | "delete" | "promote" | null>(null);
  const { busy, run } = use_act();
  if (!of || !model) return <Absent name={`${name} · ${version}`} error={error} />;
  const title = m("version.of", { model: of.model, version: of.version });
  const shell = in_shell(of.model);
  const close = () => {
    set_asked(null);
    again();
    model_again();
  };
  const remove = async () => {
    const well = await run(async () => {
      await call("POST", `${path_of(of.model, of.version)}:delete`, {});
      return m("delete.done", { name: title });
    });
    if (well) go(["models", of.model]);
    else close();
  };
  const save = async (edited: Edited) => {
    await call("POST", `${path_of(of.model, of.version)}:edit`, { name: edited.name, comment: edited.text, notes: edited.notes, metadata: JSON.stringify(edited.metadata ?? {}), ...label_changes(of.labels, edited.labels) });
    return m("saved", { name: title });
  };
  const saved = of.checkpoint_info;
  const files = Object.entries(saved?.resources ?? {}).sort(([a], [b]) => a.localeCompare(b));
  const metrics = metadata_text(saved?.metrics ?? null);
  const actions = may("user") && !model.archived && (
    <>
      <button type="button" class="button primary" onClick={() => set_asked("promote")}>{m("promote")}</button>
      <button type="button" class="button" onClick={() => set_asked("edit")}>{m("edit")}</button>
      <button type="button" class="button" onClick={() => set_asked("delete")}>{m("delete")}</button>
    </>
  );
  return (
    <>
      <Head trail={trail_of(of.model)} title={title} facts={<p class="sub">{of.name && <span>{of.name}</span>}{of.comment && <span>{of.comment}</span>}</p>} actions={actions} />
      <div class="page-body">
        <div class="columns">
          <div class="stack">
            <Facts title={m("checkpoint")} of={[
              [m("id"), <code class="wrap">{of.checkpoint}</code>],
              [m("trial"), saved && <TrialLink experiment={saved.experiment} trial={saved.trial} />],
              [m("batches"), saved && count(saved.batches)],
              [t("col.metric"), saved?.metric !== undefined && saved.metric !== null && num(saved.metric)],
              [t("col.size"), saved && size(saved.bytes)],
              [m("storage"), saved && <code class="wrap">{saved.storage}</code>],
            ]} />
            <Notes text={of.notes} />
            {metrics && <Card title={m("validation")}><Code text={metrics} /></Card>}
            {files.length > 0 && <Card title={m("files")}><dl class="config">{files.map(([file, bytes]) => <div key={file}><dt title={file}>{file}</dt><dd class="num">{file.endsWith("/") ? "" : size(bytes)}</dd></div>)}</dl></Card>}
          </div>
          <div class="stack side">
            <Facts title={m("about")} of={[
              [m("aliases"), of.aliases.length > 0 && <TagList tags={of.aliases} />],
              [m("labels"), of.labels.length > 0 && <TagList tags={of.labels} />],
              [t("col.owner"), of.user],
              [t("col.created"), date_time(of.created_ms, locale())],
              [m("changed"), date_time(of.changed_ms, locale())],
            ]} />
            <Download of={`${of.model}@${of.aliases[0] ?? of.version}`} />
            <Metadata of={of.metadata} />
          </div>
        </div>
      </div>
      {asked === "promote" && <Promote model={model} version={of.version} on_close={close} />}
      {asked === "edit" && <Edit title={m("edit.title", { name: title })} text={m("comment")} of={{ ...of, text: of.comment, workspace: "" }} save={save} on_close={close} />}
      {asked === "delete" && <Confirm title={m("delete.title", { name: title })} explain={m("delete.version.explain")} command={`volador model delete-version ${shell} ${of.version}`} act={m("delete")} danger busy={busy} on_act={() => void remove()} on_close={close} />}
    </>
  );
}
