// The part of the form for an experiment that searches a neural architecture. Loaded when a text has one.
import { Text } from "../ui/fields";
import { Card } from "../ui/parts";
import { LaterText } from "./config_parts";
import { free_name, whole, word, type Path } from "./katib_document";
import type { Form } from "./katib_form";
import { kNas, kOperations, kOperationTypes, sizes, with_operation } from "./katib_nas_document";
import { a } from "./katib_nas_texts";
export { settings_of, values_of, with_architecture, with_nas_algorithm, with_parameters } from "./katib_nas_document";

const kGraph: Path = [...kNas, "graphConfig"];

export function architecture(form: Form) {
  const { text, problems } = form;
  const size_field = (key: string, label: string, hint: string) => {
    const path: Path = [...kGraph, key];
    const list = text.list(path);
    const errors = [problems.at(path), ...list.map((_, i) => problems.at([...path, i]))].filter(Boolean).join("; ");
    return <LaterText label={label} value={list.map(String).join(", ")} hint={hint} error={errors || undefined} on_change={(next) => form.put([path, sizes(next)])} />;
  };
  const whole_error = [problems.at(kNas), problems.at(kGraph), problems.at(kOperations)].filter(Boolean).join("; ");
  return (
    <Card title={a("architecture")}>
      {whole_error && <small class="field-error" role="alert">{whole_error}</small>}
      <div class="job-form">
        {form.field([...kGraph, "numLayers"], a("layers"), whole, "8")}
        {size_field("inputSizes", a("input"), "32, 32, 3")}
        {size_field("outputSizes", a("output"), "10")}
      </div>
      <header class="katib-rows katib-part"><h3>{a("operations")}</h3><button type="button" class="button small" onClick={() => form.set(with_operation(text))}>{a("operation.add")}</button></header>
      {text.maps(kOperations).map((one, i) => operation(form, [...kOperations, i], String(one.operationType ?? "")))}
    </Card>
  );
}

function operation(form: Form, at: Path, type: string) {
  const { text, problems } = form;
  const parameters: Path = [...at, "parameters"];
  const all = text.maps(parameters);
  const errors = [problems.at(at), problems.at([...at, "operationType"]), problems.at(parameters)].filter(Boolean).join("; ");
  const add = () => form.put([[...parameters, all.length], { name: free_name(all.map((one) => one.name), "parameter"), parameterType: "categorical", feasibleSpace: { list: ["3", "5"] } }]);
  return (
    <fieldset key={at.at(-1)} class="katib-operation">
      <legend class="visually-hidden">{type}</legend>
      <div class="katib-rows">
        <Text label={a("operation")} value={type} choices={kOperationTypes} error={errors || undefined} on_change={(next) => form.put([[...at, "operationType"], word(next)])} />
        <button type="button" class="button small" onClick={add}>{a("parameter.add")}</button>
        {form.remove(type, () => form.put([at, undefined]))}
      </div>
      {all.map((one, j) => form.parameter_row([...parameters, j], one, (name) => form.put([[...parameters, j, "name"], name]), () => form.put([[...parameters, j], undefined])))}
    </fieldset>
  );
}
