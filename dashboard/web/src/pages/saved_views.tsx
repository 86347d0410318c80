// Named views of an experiment (tab, filter, columns, axes), stored in this browser and usable for every experiment.
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { saved_views } from "../prefs";
import { go, route } from "../router";
import { Icon } from "../ui/icons";
import { Menu } from "../ui/menu";
import { Dialog } from "../ui/parts";

// Query keys that name trials of one experiment; views leave them out.
const kOwn = ["pin", "brush"];

export function SavedViews({ name }: { name: string }) {
  const [typed, set_typed] = useState<string | null>(null);  // Name being typed; null: the dialog is closed.
  const views = saved_views.value;
  const save = (event: Event) => {
    event.preventDefault();
    const title = typed!.trim();
    if (!title) return;
    const query = Object.fromEntries(Object.entries(route.value.query).filter(([key]) => !kOwn.includes(key)));
    saved_views.value = { ...views, [title]: query };
    set_typed(null);
  };
  const remove = (title: string) => {
    const { [title]: _, ...rest } = views;
    saved_views.value = rest;
  };
  return (
    <>
      <Menu text={t("views")} small choices={[
        ...Object.keys(views).map((title) => ({ key: "v" + title, text: title, run: () => go(["experiments", name], views[title]) })),
        { key: "#save", text: t("views.save"), run: () => set_typed("") },
      ]} />
      {typed !== null && (
        <Dialog title={t("views.save")} on_close={() => set_typed(null)}>
          <p>{t("views.what")}</p>
          <form onSubmit={save}>
            <input class="text-input" autofocus maxLength={60} value={typed} placeholder={t("col.name")} aria-label={t("col.name")} onInput={(event) => set_typed(event.currentTarget.value)} />
            {Object.keys(views).length > 0 && (
              <ul class="chips">{Object.keys(views).map((title) => (
                <li key={title} class="tag">{title}<button type="button" onClick={() => remove(title)} aria-label={t("views.remove", { name: title })} title={t("views.remove", { name: title })}><Icon name="close" /></button></li>
              ))}</ul>
            )}
            <footer>
              <button type="button" class="button" onClick={() => set_typed(null)}>{t("cancel")}</button>
              <button type="submit" class="button primary" disabled={!typed.trim()}>{t("save")}</button>
            </footer>
          </form>
        </Dialog>
      )}
    </>
  );
}
