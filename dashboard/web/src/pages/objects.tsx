// Objects in the nodes' object stores, by program line and one by one, and how full the stores are.
import { t } from "../i18n";
import type { ObjectGroup, ObjectStore, StoredObject } from "../live/protocol";
import { use_topic } from "../live/use";
import { link, query } from "../router";
import { Icon } from "../ui/icons";
import { Code, Empty, Head, Meter, Rows, State, Tabs, count, size } from "../ui/parts";
import { Table, type Column } from "../ui/table";

const kTabs = ["places", "objects", "stores"] as const;
const kPut = "volador::Ref<std::vector<double>> numbers = volador::put(std::vector<double>(1'000'000, 0.5));";

const Bytes = ({ of }: { of: number }) => <span class="num">{size(of)}</span>;
const On = ({ node }: { node: string }) => <a href={link(["nodes", node])}>{node}</a>;

export function Objects() {
  const stores = use_topic("object_stores", {}, 200);
  const tab = query("tab", "places");
  return (
    <>
      <Head title={t("nav.objects")}>
        <Totals stores={stores.list()} />
        <Tabs now={tab} tabs={kTabs.map((key) => ({ key, text: t(`objects.${key}`), href: link(["objects"], { tab: key }) }))} />
      </Head>
      <div class="page-body fill">
        {tab === "stores" ? <Stores /> : tab === "objects" ? <OneByOne stores={stores.list()} /> : <Places />}
      </div>
    </>
  );
}

function Totals({ stores }: { stores: ObjectStore[] }) {
  const sum = (of: (store: ObjectStore) => number) => stores.reduce((all, store) => all + of(store), 0);
  const silent = stores.filter((store) => store.error);
  if (!stores.length) return null;
  return (
    <p class="sub">
      <span>{t("objects.sum", { n: sum((one) => one.objects), shown: count(sum((one) => one.objects)) })}</span>
      <span>{t("objects.memory", { used: size(sum((one) => one.bytes)), limit: size(sum((one) => one.bytes_max)) })}</span>
      {sum((one) => one.spilled) > 0 && <span>{t("objects.spilled", { used: size(sum((one) => one.spilled)) })}</span>}
      {silent.length > 0 && <span class="state quiet tone-warn"><Icon name="warning" />{t("objects.silent", { n: silent.length, nodes: silent.map((one) => one.node).join(", ") })}</span>}
    </p>
  );
}

const None = () => <Empty icon="objects" title={t("objects.none")} code={kPut}>{t("objects.none.next")}</Empty>;

function Places() {
  const groups = use_topic("object_groups", {}, 200);
  const columns: Column<ObjectGroup>[] = [
    { key: "place", title: t("col.place"), width: 190, small: true, look: (row) => row.place, cell: (row) => <b title={row.place}>{row.place || "–"}</b> },
    { key: "bytes", title: t("col.size"), width: 92, right: true, small: true, look: (row) => row.bytes, cell: (row) => <Bytes of={row.bytes} /> },
    { key: "objects", title: t("nav.objects"), width: 84, right: true, small: true, look: (row) => row.objects, cell: (row) => <span class="num">{count(row.objects)}</span> },
    { key: "memory", title: t("col.in_memory"), width: 96, right: true, look: (row) => row.bytes_in_memory, cell: (row) => <Bytes of={row.bytes_in_memory} /> },
    { key: "spilled", title: t("col.on_disk"), width: 92, right: true, look: (row) => row.bytes_spilled, cell: (row) => <Bytes of={row.bytes_spilled} /> },
    { key: "references", title: t("col.references"), width: 92, right: true, look: (row) => row.references, cell: (row) => <span class="num">{count(row.references)}</span> },
    { key: "type", title: t("col.type"), width: 170, look: (row) => row.type, cell: (row) => <span class="soft" title={row.type}>{row.type}</span> },
    { key: "put_by", title: t("col.put_by"), width: 170, look: (row) => row.put_by, cell: (row) => <span title={row.put_by}>{row.put_by}</span> },
    { key: "node", title: t("col.node"), width: 100, look: (row) => row.node, cell: (row) => <On node={row.node} /> },
  ];
  return <Rows of={groups}>{(rows) => <Table label={t("objects.places")} rows={rows} columns={columns} id={(row) => row.id} order="-bytes" empty={<None />} tools={rows.length > 0 && <span class="soft">{t("objects.arenas", { used: size(rows.reduce((sum, one) => sum + one.bytes_in_memory, 0)) })}</span>} />}</Rows>;
}

function OneByOne({ stores }: { stores: ObjectStore[] }) {
  const objects = use_topic("objects", {}, 200);
  const all = stores.reduce((sum, one) => sum + one.objects, 0);
  const holders = (row: StoredObject) => row.held_by.join(", ");
  const columns: Column<StoredObject>[] = [
    { key: "object", title: t("col.id"), width: 150, small: true, look: (row) => row.object, cell: (row) => <code title={row.object}>{row.object}</code> },
    { key: "bytes", title: t("col.size"), width: 92, right: true, small: true, look: (row) => row.bytes, cell: (row) => <Bytes of={row.bytes} /> },
    { key: "state", card: "side", title: t("col.where"), width: 136, small: true, look: (row) => row.state, cell: (row) => <State of={row.state === "memory" ? "in_memory" : row.state} /> },
    { key: "references", title: t("col.references"), width: 92, right: true, look: (row) => row.references, cell: (row) => <span class="num">{count(row.references)}</span> },
    { key: "held_by", title: t("col.held_by"), width: 200, look: holders, cell: (row) => <span title={holders(row)}>{holders(row) || "–"}</span> },
    { key: "place", title: t("col.place"), width: 160, look: (row) => row.place, cell: (row) => <span title={row.place}>{row.place || "–"}</span> },
    { key: "type", title: t("col.type"), width: 150, look: (row) => row.type, cell: (row) => <span class="soft" title={row.type}>{row.type}</span> },
    { key: "put_by", title: t("col.put_by"), width: 150, look: (row) => row.put_by, cell: (row) => <span title={row.put_by}>{row.put_by}</span> },
    { key: "node", title: t("col.node"), width: 120, look: (row) => row.node, cell: (row) => <span><On node={row.node} />{row.copy && <small class="soft"> {t("objects.copy")}</small>}</span> },
  ];
  return (
    <Rows of={objects}>
      {(rows) => (
        <Table label={t("nav.objects")} rows={rows} columns={columns} id={(row) => row.id} order="-bytes" empty={<None />}
          tools={all > rows.length && rows.length > 0 ? <span class="soft">{t("objects.largest", { shown: count(rows.length), all: count(all) })}</span> : undefined} />
      )}
    </Rows>
  );
}

const part = (used: number, of: number) => (of > 0 ? used / of : null);

function Fill({ used, of, label }: { used: number; of: number; label: string }) {
  if (of <= 0) return <span class="soft">{t("objects.no_disk")}</span>;
  return <span class="used"><span class="num">{size(used)} / {size(of)}</span><Meter part={used} of={of} label={label} /></span>;
}

function Stores() {
  const stores = use_topic("object_stores", {}, 200);
  const columns: Column<ObjectStore>[] = [
    { key: "node", title: t("col.node"), width: 130, small: true, look: (row) => row.node, cell: (row) => <On node={row.node} /> },
    { key: "memory", title: t("col.in_memory"), width: 220, small: true, look: (row) => part(row.bytes, row.bytes_max), cell: (row) => (row.error ? <span class="soft">–</span> : <Fill used={row.bytes} of={row.bytes_max} label={t("col.in_memory")} />) },
    { key: "spilled", title: t("col.on_disk"), width: 220, look: (row) => part(row.spilled, row.spilled_max), cell: (row) => (row.error ? <span class="soft">–</span> : <Fill used={row.spilled} of={row.spilled_max} label={t("col.on_disk")} />) },
    { key: "objects", title: t("nav.objects"), width: 90, right: true, small: true, look: (row) => row.objects, cell: (row) => <span class="num">{count(row.objects)}</span> },
    { key: "error", card: "wide", title: t("col.problem"), width: 320, look: (row) => row.error, cell: (row) => <span class="soft" title={row.error}>{row.error}</span> },
  ];
  return (
    <Rows of={stores}>
      {(rows) => (
        <Table label={t("objects.stores")} rows={rows} columns={columns} id={(row) => row.id} order="node"
          empty={<div class="empty"><p class="strong">{t("nodes.none")}</p><p>{t("nodes.none.next")}</p><Code text="volador start --address=HEAD:6380 --token=vt1.…" /></div>} />
      )}
    </Rows>
  );
}
