// Registers a checkpoint as the next version of a model. Loaded when it is opened.
import { useState } from "preact/hooks";
import { call } from "../api";
import { use_answer } from "../live/poll";
import { go } from "../router";
import { use_act } from "../ui/confirm";
import { Area, Choice, Text } from "../ui/fields";
import { Code, Dialog, Failed, Loading, failure } from "../ui/parts";
import { m } from "./model_texts";
import { path_of, type Model, type ModelVersion } from "./model_rows";
import { in_shell } from "../ui/names";

const kNew = "";  // No name of a model.

export function Register({ checkpoint, on_close }: { checkpoint: string; on_close: () => void }) {
  const { answer, error } = use_answer<{ rows: Model[] }>("/api/v1/models?page_size=10000", 60_000);
  const [chosen, set_chosen] = useState<string | null>(null);
  const [name, set_name] = useState("");
  const [comment, set_comment] = useState("");
  const { busy, run } = use_act();
  const models = (answer?.rows ?? []).filter((row) => !row.archived).map((row) => row.name);
  const model = chosen ?? models[0] ?? kNew;
  const wanted = model === kNew ? name.trim() : model;
  const register = async (event: Event) => {
    event.preventDefault();
    let made: ModelVersion | null = null;
    const well = await run(async () => {
      if (model === kNew && !models.includes(wanted)) await call("POST", "/api/v1/models", { model: { name: wanted } });
      made = await call<ModelVersion>("POST", `${path_of(wanted)}/versions`, { version: { checkpoint, comment } });
      return m("register.done", { version: made.version, model: made.model });
    });
    if (!well || !made) return;
    on_close();
    go(["models", (made as ModelVersion).model]);
  };
  return (
    <Dialog title={m("register.title", { id: checkpoint.slice(0, 8) })} on_close={on_close}>
      {error ? <Failed {...failure(error)} /> : !answer ? <Loading /> : (
        <form onSubmit={(event) => void register(event)}>
          <p>{m("register.explain")}</p>
          <Choice label={m("register.model")} value={model} options={[...models.map((one): [string, string] => [one, one]), [kNew, m("register.new")]]} on_change={set_chosen} />
          {model === kNew && <Text label={m("name")} value={name} hint={m("name.hint")} on_change={set_name} />}
          <Area label={m("comment")} value={comment} on_change={set_comment} />
          <Code text={`volador model register-version ${in_shell(wanted || "MODEL")} ${checkpoint.slice(0, 8)}`} />
          <footer><button type="submit" class="button primary" disabled={busy || !wanted}>{m("register.act")}</button></footer>
        </form>
      )}
    </Dialog>
  );
}
