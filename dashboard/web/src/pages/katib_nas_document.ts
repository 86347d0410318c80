// What the form makes of an experiment that searches a neural architecture: nasConfig, the algorithms enas and darts, and the values that their trials get. Pure.
import { free_name, ResourceText, whole, type Path, type Setting } from "./katib_document";

const kSpec: Path = ["spec"];
export const kNas: Path = [...kSpec, "nasConfig"];
export const kOperations: Path = [...kNas, "operations"];
const kAlgorithm: Path = [...kSpec, "algorithm"];
const kParameters: Path = [...kSpec, "parameters"];
const kTrialParameters: Path = [...kSpec, "trialTemplate", "trialParameters"];

// Types of operations that Katib's services and training code know.
export const kOperationTypes = ["convolution", "separable_convolution", "depthwise_convolution", "dilated_convolution", "max_pooling", "avg_pooling", "reduction", "skip_connection"];

const choice = (name: string, ...list: string[]) => ({ name, parameterType: "categorical", feasibleSpace: { list } });

interface Nas {
  values: [name: string, reference: string][];  // What a trial gets: the usual name of its placeholder, and its name in the suggestion.
  operations: unknown[];                        // With which a search begins.
  settings: string;                             // Names with defaults, as Katib's service has them.
}
const kAlgorithms: Record<string, Nas> = {
  enas: {
    values: [["neuralNetworkArchitecture", "architecture"], ["neuralNetworkConfig", "nn_config"]],
    operations: [{ operationType: "convolution", parameters: [choice("filter_size", "3", "5", "7"), choice("num_filter", "32", "48", "64"), choice("stride", "1", "2")] }],
    settings: "controller_hidden_size 64, controller_temperature 5, controller_tanh_const 2.25, controller_entropy_weight 1e-5, controller_baseline_decay 0.999, controller_learning_rate 5e-5, controller_skip_target 0.4, controller_skip_weight 0.8, controller_train_steps 50, controller_log_interval 10",
  },
  darts: {
    values: [["algorithmSettings", "algorithm-settings"], ["searchSpace", "search-space"], ["numberLayers", "num-layers"]],
    operations: [{ operationType: "separable_convolution", parameters: [choice("filter_size", "3")] }, { operationType: "max_pooling", parameters: [choice("filter_size", "3")] }, { operationType: "skip_connection" }],
    settings: "num_epochs 50, w_lr 0.025, w_lr_min 0.001, w_momentum 0.9, w_weight_decay 3e-4, w_grad_clip 5, alpha_lr 3e-4, alpha_weight_decay 1e-3, batch_size 128, num_workers 4, init_channels 16, print_step 50, num_nodes 4, stem_multiplier 3",
  },
};

export const settings_of = (algorithm: string): Setting[] => (kAlgorithms[algorithm]?.settings.split(", ") ?? []).map((one) => {
  const [name, usual] = one.split(" ");
  return { name, usual, form: "text", words: [], above_low: false, below_high: false };
});

// Names of the values that the trials of an algorithm get; empty: its service defines them.
export const values_of = (algorithm: string): string[] => (kAlgorithms[algorithm]?.values ?? []).map(([, reference]) => reference);

// Placeholders without those of `gone`, and with those of the algorithm's values.
function placeholders(text: ResourceText, gone: string[], added: [name: string, reference: string][]): [Path, unknown][] {
  const all = text.maps(kTrialParameters);
  const is_gone = (one: Record<string, unknown>) => gone.includes(String(one.reference)) && !added.some(([, reference]) => reference === one.reference);
  const kept = all.filter((one) => !is_gone(one));
  const missing = added.filter(([, reference]) => !kept.some((one) => one.reference === reference));
  return [
    ...all.flatMap((one, i): [Path, unknown][] => (is_gone(one) ? [[[...kTrialParameters, i], undefined]] : [])).reverse(),
    ...missing.map(([name, reference], i): [Path, unknown] => [[...kTrialParameters, kept.length + i], { name: kept.some((one) => one.name === name) ? free_name(kept.map((one) => one.name), name) : name, reference }]),
  ];
}

const others_of = (algorithm: string): string[] => Object.keys(kAlgorithms).filter((one) => one !== algorithm).flatMap(values_of);
const changed_algorithm = (text: ResourceText, name: string): [Path, unknown][] => (text.shown([...kAlgorithm, "algorithmName"]) === name ? [] : [[[...kAlgorithm, "algorithmSettings"], undefined], [[...kAlgorithm, "algorithmName"], name]]);

// The text with an architecture as the space of its search. `keep`: its algorithm is a service that may search one.
export function with_architecture(text: ResourceText, keep: boolean): string | null {
  const now = text.shown([...kAlgorithm, "algorithmName"]);
  const algorithm = keep || kAlgorithms[now] ? now : "enas";
  const { operations, values } = kAlgorithms[algorithm] ?? { operations: kAlgorithms.enas.operations, values: [] };
  const first: [Path, unknown][] = text.value(kNas) === undefined ? [[kNas, { graphConfig: { numLayers: 8, inputSizes: [32, 32, 3], outputSizes: [10] }, operations }]] : [];
  return text.with([kParameters, undefined], ...first, ...changed_algorithm(text, algorithm), ...placeholders(text, [...text.maps(kParameters).map((one) => String(one.name)), ...others_of(algorithm)], values));
}

// The text with parameters as the space of its search.
export function with_parameters(text: ResourceText): string | null {
  const now = text.shown([...kAlgorithm, "algorithmName"]);
  const has = text.list(kParameters).length > 0;
  const first: [Path, unknown][] = has ? [] : [[kParameters, [{ name: "lr", parameterType: "double", feasibleSpace: { min: "0.001", max: "0.1" } }]]];
  return text.with([kNas, undefined], ...first, ...(kAlgorithms[now] ? changed_algorithm(text, "random") : []), ...placeholders(text, others_of(""), has ? [] : [["learningRate", "lr"]]));
}

// Operations stay, unless they are those with which the search of the other algorithm begins. Another service keeps the placeholders too: it defines the values of its trials.
export function with_nas_algorithm(text: ResourceText, name: string): string | null {
  const to = kAlgorithms[name];
  const from = kAlgorithms[text.shown([...kAlgorithm, "algorithmName"])];
  const is_first = to && from && JSON.stringify(text.value(kOperations)) === JSON.stringify(from.operations);
  return text.with(...changed_algorithm(text, name), ...(is_first ? [[kOperations, to.operations] as [Path, unknown]] : []), ...(to ? placeholders(text, others_of(name), to.values) : []));
}

export const with_operation = (text: ResourceText): string | null => text.with([[...kOperations, text.list(kOperations).length], { operationType: "separable_convolution", parameters: [choice("filter_size", "3", "5")] }]);

// "32, 32, 3" as whole numbers; what is none stays a text, which the head refuses by name.
export function sizes(text: string): unknown {
  const all = text.split(/[,，]/).map(whole).filter((one) => one !== undefined);
  return all.length ? all : undefined;
}
