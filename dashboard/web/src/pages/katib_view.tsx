// The resource of kind Experiment that an experiment runs: its conditions, its optimal trial, and the resource as YAML.
import { may } from "../api";
import { use_answer } from "../live/poll";
import { link } from "../router";
import { Card, Code, Copy, Failed, Loading, failure } from "../ui/parts";
import { k } from "./katib_texts";
import { conditions_of, optimal_of, resource_yaml, type Resource } from "./katib_resource";

const kEvery = 5000;  // In ms.

// `of`: "<namespace>/<name>".
export function KatibResource({ of }: { of: string }) {
  const [namespace, name] = of.split("/");
  const query = new URLSearchParams({ kind: "Experiment", namespace, name });
  const { answer, error } = use_answer<{ rows: Resource[] }>(`/api/v1/katib/resources?${query}`, kEvery);
  if (error) return <Failed {...failure(error)} />;
  if (!answer) return <Loading />;
  const [resource] = answer.rows;
  if (!resource) return <p class="reason">{k("gone", { name: of })}</p>;
  const optimal = optimal_of(resource);
  const conditions = conditions_of(resource);
  const yaml = resource_yaml(resource.object);
  return (
    <Card title={k("title", { name: of })} action={<span class="pair">{may("user") && <a class="button small" href={link(["new_experiment"], { of: "katib", edit: of })}>{k("edit")}</a>}<Copy text={yaml} label={k("yaml")} /></span>}>
      {optimal && (
        <>
          <h3 class="katib-part">{k("optimal")}</h3>
          <p><code>{optimal.bestTrialName}</code></p>
          <dl class="config">
            {(optimal.observation?.metrics ?? []).map((one) => <div key={one.name}><dt>{one.name}</dt><dd class="num">{one.latest ?? one.max}</dd></div>)}
            {(optimal.parameterAssignments ?? []).map((one) => <div key={one.name}><dt>{one.name}</dt><dd class="num">{one.value}</dd></div>)}
          </dl>
        </>
      )}
      {conditions.length > 0 && (
        <>
          <h3 class="katib-part">{k("conditions")}</h3>
          <ul class="katib-conditions">{conditions.map((one) => <li key={one.type}><b class={one.status === "True" ? "" : "soft"}>{one.type} {one.status}</b> <span>{one.message || one.reason}</span> <small class="soft">{one.lastTransitionTime}</small></li>)}</ul>
        </>
      )}
      <details class="katib-part"><summary>{k("yaml")}</summary><Code text={yaml} /></details>
      <p class="quiet-line katib-part">{k("terminal")}</p>
      <Code text={`volador describe experiment ${name} -n ${namespace}`} />
    </Card>
  );
}
