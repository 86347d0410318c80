// Tests the pages of Katib's resources with a real head: katib_test.mjs VOLADOR.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { axe_source, check, equal, open_browser, run, until, web } from "./harness.mjs";
import { start_suggestions } from "./suggestion_service.mjs";

const { open_pages, start } = await import(join(web, "dev/experiments.mjs"));
const browser = await open_browser();
const service = await start_suggestions({ "algorithm-settings": "{'num_epochs': 2}", "search-space": "['max_pooling_3x3']", "num-layers": "3" }, (experiment) => (experiment.includes("refused_operation") ? "there is no refused_operation" : ""));
const cluster = start(process.argv[2], `--katib-suggestions={darts: {address: "${service.address}"}}`);
const pages = open_pages(browser, cluster);
const { go, wrong } = pages;

// The resource with which the page begins, with another name, a second parameter and trials that print what they got.
const first = readFileSync(join(web, "src/pages/katib_first.yaml"), "utf8");
const changed = (text, changes) => Object.entries(changes).reduce((now, [from, to]) => {
  check(now.includes(from), `katib_first.yaml has no ${from}`);
  return now.replace(from, () => to);
}, text);
const resource = (name, most, more = "") => changed(first, {
  "name: random\n": `name: ${name}\n  namespace: team\n`, "goal: 0.01": "goal: 0.0001", "maxTrialCount: 6\n": `maxTrialCount: ${most}\n  resumePolicy: LongRunning\n${more}`,
  "  trialTemplate:": "    - {name: optimizer, parameterType: categorical, feasibleSpace: {list: [sgd, adam]}}\n  trialTemplate:",
  "    trialSpec:": "      - {name: optimizer, reference: optimizer}\n    trialSpec:",
  [/command: .*/.exec(first)[0]]: 'command: [bash, -c, "echo with ${trialParameters.optimizer}; echo loss=${trialParameters.learningRate}"]',
});

// As Katib has it (examples/v1beta1/kubeflow-training-operator/mpijob-horovod.yaml), shortened, with comments.
const mpi_example = `apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata:
  namespace: kubeflow
  name: mpijob-horovod
spec:
  objective:
    type: minimize
    goal: 0.01
    objectiveMetricName: loss
  algorithm:
    algorithmName: random
  parallelTrialCount: 2
  maxTrialCount: 6
  parameters:
    - name: lr
      parameterType: double
      feasibleSpace:
        min: "0.001"
        max: "0.003"
  trialTemplate:
    primaryPodLabels:
      mpi-job-role: launcher
    primaryContainerName: mpi-launcher
    trialParameters:
      - name: learningRate
        description: Learning rate for the training model
        reference: lr
    trialSpec:
      apiVersion: kubeflow.org/v1
      kind: MPIJob
      spec:
        slotsPerWorker: 1
        cleanPodPolicy: Running # Logs stay.
        mpiReplicaSpecs:
          Launcher:
            replicas: 1
            template:
              spec:
                containers:
                  - name: mpi-launcher
                    command:
                      - mpirun
                    args:
                      - -np
                      - "2"
                      - python
                      - tensorflow_mnist.py
                      - --lr
                      - \${trialParameters.learningRate}
                    resources:
                      limits:
                        cpu: 500m
          # One for each machine.
          Worker:
            replicas: 2
            template:
              spec:
                containers:
                  - name: mpi-worker
                    resources:
                      limits:
                        cpu: 500m
                        memory: 4Gi
`;

let page;
const put = (text) => page.locator(".config-text input[type=file]").setInputFiles({ name: "resources.yaml", mimeType: "text/yaml", buffer: Buffer.from(text) });
const verdict = (wanted) => until(wanted, async () => (await page.textContent(".config-acts .prediction")).includes(wanted));
// The input of a field of the form.
const field = (label, within = page) => within.locator(".field", { has: page.locator("label > span", { hasText: new RegExp(`^${label}$`) }) }).locator("input, select, textarea").first();
const row = (name) => page.locator("fieldset.katib-row", { has: page.locator("legend", { hasText: new RegExp(`^${name}$`) }) }).first();
const error = (text) => until("an error: " + text, async () => (await page.locator(".config-form .field-error").allTextContents()).some((one) => one.includes(text)));
const written = () => page.locator(".config-text .cm-content").innerText();
const at = () => page.getAttribute("#main", "data-at");
// The form of a new resource with this name and one trial at most.
async function fresh(name) {
  await go("/experiments", page);
  await go("/new_experiment?of=katib", page);
  await page.waitForSelector(".config-form");
  await field("Name").fill(name);
  await field("Namespace").fill("team");
  await field("Parallel trials").fill("1");
  await field("Maximum of trials").fill("1");
  await verdict(`Experiment ${name} will be created`);
}
// Applies the resource, waits for its trials, and returns its spec.
async function applied(name, trials) {
  await page.click(".config-acts .primary");
  await until("its page", async () => new RegExp(`^/experiments/${name}-\\d+\\?tab=katib`).test(await at()), 30_000);
  await until(`${trials} trials`, async () => (await succeeded()) === trials, 120_000);
  const { rows } = await page.evaluate((of) => fetch("/api/v1/katib/resources?kind=Experiment&name=" + of).then((reply) => reply.json()), name);
  return rows[0].object.spec;
}
const succeeded = () => page.locator("tbody tr:has-text('Succeeded')").count();

try {
  await run("web_katib", {
    "the head checks resources while they are written, and errors stand in their lines": async () => {
      page = await pages.tab();
      await go("/new_experiment", page);
      await page.click(".page-head a:has-text('Katib')");
      await page.waitForSelector(".katib-apply .cm-content");
      await verdict("Experiment random will be created");
      await put(resource("grid", 3, "  maxFailedTrialCont: 1\n"));
      await verdict("1 error");
      check((await page.textContent(".findings")).includes("did you mean maxFailedTrialCount"), "the nearest key: " + (await page.textContent(".findings")));
      check((await page.textContent(".findings .link")).includes("line 16, column 3"), "its place");
      equal(await page.locator(".cm-lintRange-error").textContent(), "maxFailedTrialCont", "what is marked");
      check(await page.locator(".config-acts .primary").isDisabled(), "nothing with errors is applied");
      await put(resource("grid", 3));
      await verdict("Experiment grid will be created");
      check((await page.textContent(".katib-apply")).includes("Experiment team/grid will be created"), "with its namespace");
    },
    "an applied experiment shows the objective of its trials, their conditions, jobs and logs": async () => {
      await page.click(".config-acts .primary");
      await until("its page", async () => /^\/experiments\/grid-\d+\?tab=katib/.test(await at()), 30_000);
      await until("three trials", async () => (await succeeded()) === 3, 120_000);
      check((await page.textContent("main")).includes("Minimize loss") && (await page.textContent("main")).includes("Goal 1e−4"), "the objective");
      const heads = (await page.locator("thead th").allTextContents()).map((one) => one.trim());
      for (const name of ["loss", "lr", "optimizer", "Job", "Logs"]) check(heads.includes(name), "a column " + name);
      await page.click(".chart-tools .icon-button");
      equal(await page.locator(".data-table tbody tr").count(), 3, "the numbers of the plot");
      await page.click(".chart-tools .icon-button");
      await page.locator(".chart-tools select").selectOption({ label: "lr" });
      await until("the parameter in the address", async () => (await at()).includes("x=p.lr"));
      const here = await at();
      await page.locator("tbody a[href^='#/jobs/']").first().click();
      await until("its job", async () => (await at()).startsWith("/jobs/job-"));
      await go(here, page);
      await page.locator("tbody a[href^='#/logs']").first().click();
      await until("its output", async () => /with (sgd|adam)/.test(await page.textContent("main")), 30_000);
      await go(here, page);
      await page.locator("tbody a[href*='/trials/trial-']").first().click();
      await until("its page", async () => /\/trials\/trial-\d+$/.test(await at()));
    },
    "a resource is edited: the head says what changes, and more trials run": async () => {
      await page.click(".trail a:has-text('grid-')");
      await page.click(".page-head a:has-text('Configuration')");
      await until("its conditions", async () => (await page.textContent(".katib-conditions")).includes("Succeeded True"));
      await page.click(".config-shown a:has-text('Edit')");
      await page.waitForSelector(".katib-apply .cm-content");
      await verdict("Experiment grid stays as it is");
      await put(resource("grid", 3).replace("minimize", "maximize"));
      await verdict("1 error");
      await put(resource("grid", 4));
      await verdict("Experiment grid will be changed");
      await page.click(".config-acts .primary");
      await until("the fourth trial", async () => (await succeeded()) === 4, 120_000);
    },
    "a form writes the resource: settings by algorithm, errors at their fields": async () => {
      await go("/experiments", page);
      await go("/new_experiment?of=katib", page);
      await until("the algorithms", async () => (await field("Search algorithm").locator("option").count()) > 8);
      await field("Name").fill("made");
      await field("Namespace").fill("team");
      await verdict("Experiment made will be created");
      await field("Search algorithm").selectOption("tpe");
      equal(await field("gamma").getAttribute("placeholder"), "0 < x < 1", "the range of a setting");
      await field("gamma").fill("2");
      await error("setting gamma of algorithm tpe");
      equal(await field("Search algorithm").getAttribute("aria-invalid"), "true", "the field that the error is about");
      check(await page.locator(".config-acts .primary").isDisabled(), "nothing with errors is applied");
      await field("gamma").fill("0.2");
      await field("random_state").fill("7");
      await verdict("Experiment made will be created");
      await field("Minimum", row("lr")).fill("1");
      await error("expected less than max (0.1), got 1");
      equal(await field("Minimum", row("lr")).getAttribute("aria-invalid"), "true", "the bound that is wrong");
      await field("Minimum", row("lr")).fill("0.01");
      await field("Distribution", row("lr")).selectOption("logUniform");
      await page.locator(".card", { hasText: "Parameters of the search" }).getByRole("button", { name: "Add" }).click();
      await field("Type", row("parameter_2")).selectOption("categorical");
      await field("Values, separated by commas", row("parameter_2")).fill("sgd, adam");
      await field("Name", row("parameter_2")).fill("optimizer");
      await field("Goal").fill("0.0001");
      await field("Maximum of trials").fill("3");
      await field("Early stopping").selectOption("medianstop");
      await field("min_trials_required").fill("5");
      await field("Command, a script of bash").fill("echo with ${trialParameters.parameter_2}\necho loss=${trialParameters.learningRate}");
      await page.locator(".config-acts").click();
      await verdict("Experiment made will be created");
      const text = await written();
      for (const part of ["algorithmName: tpe", "- name: gamma", 'value: "0.2"', "goal: 0.0001", "distribution: logUniform"]) check(text.includes(part), `the text has ${part}: ${text}`);
      await page.click(".config-acts .primary");
      await until("its page", async () => /^\/experiments\/made-\d+\?tab=katib/.test(await at()), 30_000);
      await until("three trials", async () => (await succeeded()) === 3, 120_000);
      const { rows: [made] } = await page.evaluate(() => fetch("/api/v1/katib/resources?kind=Experiment&name=made").then((reply) => reply.json()));
      equal(JSON.stringify(made.object.spec.earlyStopping), '{"algorithmName":"medianstop","algorithmSettings":[{"name":"min_trials_required","value":"5"}]}', "early stopping");
      equal(JSON.stringify(made.object.spec.parameters[1]), '{"name":"optimizer","parameterType":"categorical","feasibleSpace":{"list":["sgd","adam"]}}', "the second parameter");
    },
    "a form writes trials of each kind: replicas, the command, amounts and the primary container": async () => {
      await fresh("mpi");
      await field("Kind").selectOption("MPIJob");
      await verdict("Experiment mpi will be created");
      equal(await field("Primary container").inputValue(), "mpi-launcher", "the primary container");
      await field("Workers").fill("none");
      await error('expected a whole number from 0 to 1000, got "none"');
      equal(await field("Workers").getAttribute("aria-invalid"), "true", "the field that the error is about");
      await field("Workers").fill("2");
      await field("Processes per worker").fill("1");
      await field("CPUs").fill("much");
      await error('expected an amount such as 2, 500m or 4Gi, got "much"');
      await field("CPUs").fill("500m");
      await field("Command, a script of bash").fill("echo loss=${trialParameters.rate}");
      await error("trialParameters has no parameter rate");
      await field("Command, a script of bash").fill("echo with $OMPI_MCA_orte_default_hostfile; echo loss=${trialParameters.learningRate}");
      await verdict("Experiment mpi will be created");
      const mpi = await applied("mpi", 1);
      equal(JSON.stringify(mpi.trialTemplate.trialSpec.spec.mpiReplicaSpecs.Worker), '{"replicas":2,"restartPolicy":"Never","template":{"spec":{"containers":[{"name":"mpi-worker","resources":{"limits":{"cpu":"500m"}}}]}}}', "the workers");

      await fresh("train");
      await field("Kind").selectOption("TrainJob");
      equal(await field("Runtime").inputValue(), "torch-distributed", "the runtime");
      await field("Nodes").fill("2");
      await field("Processes per node").fill("many");
      await error('expected a whole number from 1 to 1024, got "many"');
      await field("Processes per node").fill("1");
      await field("CPUs").fill("1");
      await field("Command, a script of bash").fill("echo rank $PET_NODE_RANK of $PET_NNODES; echo loss=${trialParameters.learningRate}");
      await verdict("Experiment train will be created");
      const train = await applied("train", 1);
      equal(JSON.stringify(train.trialTemplate.trialSpec.spec), '{"runtimeRef":{"name":"torch-distributed"},"trainer":{"numNodes":2,"command":["bash","-c","echo rank $PET_NODE_RANK of $PET_NNODES; echo loss=${trialParameters.learningRate}"],"numProcPerNode":1,"resourcesPerNode":{"limits":{"cpu":"1"}}}}', "the trainer");

      await fresh("servers");
      await field("Kind").selectOption("TFJob");
      await field("Parameter servers").fill("1");
      await page.getByRole("button", { name: "All replicas have the same command and resources" }).click();
      const replica = (type) => page.locator("fieldset.katib-replica", { has: page.locator("legend", { hasText: new RegExp(`^${type}$`) }) });
      await field("Command, a script of bash", replica("PS")).fill("sleep 600");
      await field("Memory", replica("Chief")).fill("64Mi");
      await verdict("Experiment servers will be created");
      const text = await written();
      equal(text.split("sleep 600").length, 2, "the command of the parameter servers alone: " + text);
      equal(text.split("64Mi").length, 2, "the memory of the chief alone: " + text);
      await field("Kind").selectOption("Job");
      await field("Pods").fill("2");
      await verdict("Experiment servers will be created");
      check((await written()).includes("parallelism: 2"), "the pods of a job");
    },
    "a resource of Katib's examples opens in the form, and a change keeps its comments and its other keys": async () => {
      await go("/experiments", page);
      await go("/new_experiment?of=katib", page);
      await put(mpi_example);
      await until("its kind", async () => (await field("Kind").inputValue()) === "MPIJob");
      equal(await field("Workers").inputValue(), "2", "the workers");
      equal(await field("Memory").inputValue(), "4Gi", "the memory of a worker");
      await verdict("Experiment mpijob-horovod will be created");
      await field("Workers").fill("3");
      await verdict("Experiment mpijob-horovod will be created");
      await until("the text", async () => (await written()).replace(/\u00a0/g, " ").trim() === mpi_example.replace("replicas: 2", "replicas: 3").trim());
    },
    "a form writes the search of an architecture, and says which service is missing": async () => {
      await fresh("cells");
      await field("What is searched").selectOption("nas");
      await error("trialParameters has no parameter learningRate");
      await field("Command, a script of bash").fill("echo ${trialParameters.neuralNetworkArchitecture} ${trialParameters.neuralNetworkConfig}");
      await error('algorithm "enas" searches neural architectures and is not built in');
      equal(await field("Search algorithm").getAttribute("aria-invalid"), "true", "the field that the error is about");
      const card = page.locator(".card", { hasText: "Search algorithm" });
      check((await card.textContent()).includes("No service of the algorithm enas is registered"), "what is missing: " + (await card.textContent()));
      check((await card.locator(".code").textContent()).includes("suggestions: '{enas: {command: "), "how it is registered");
      equal(await field("controller_hidden_size").getAttribute("placeholder"), "64", "the default of a setting");
      check(await page.locator(".config-acts .primary").isDisabled(), "nothing with errors is applied");
      await field("Search algorithm").selectOption({ label: "darts (external service)" });
      equal(await card.locator(".code").count(), 0, "the service is there");
      await field("num_epochs").fill("2");
      await field("Command, a script of bash").fill('echo layers=${trialParameters.numberLayers} "${trialParameters.searchSpace}" "${trialParameters.algorithmSettings}"\necho loss=1');
      await verdict("Experiment cells will be created");
      await field("Layers").fill("0");
      await error("expected a whole number from 1 to 10000, got 0");
      equal(await field("Layers").getAttribute("aria-invalid"), "true", "the field that the error is about");
      await field("Layers").fill("3");
      await field("Input sizes, separated by commas").fill("32, wide");
      await page.locator(".config-acts").click();
      await error('expected a whole number of at least 1, got "wide"');
      await field("Input sizes, separated by commas").fill("32, 32, 3");
      await page.locator(".config-acts").click();
      const operations = page.locator("fieldset.katib-operation");
      equal(await operations.count(), 3, "the operations with which a search begins");
      await page.getByRole("button", { name: "Add operation" }).click();
      await field("Operation", operations.nth(3)).fill("refused_operation");
      await error("there is no refused_operation");
      await field("Operation", operations.nth(3)).fill("dilated_convolution");
      await operations.nth(3).getByRole("button", { name: "Add parameter" }).click();
      await field("Type", operations.nth(3).locator(".katib-row").nth(1)).selectOption("int");
      await field("Minimum", operations.nth(3).locator(".katib-row").nth(1)).fill("20");
      await error("expected less than max (10), got 20");
      await operations.nth(3).getByRole("button", { name: "Remove parameter_2" }).click();
      await verdict("Experiment cells will be created");
      const made = await applied("cells", 1);
      equal(JSON.stringify(made.nasConfig.graphConfig), '{"numLayers":3,"inputSizes":[32,32,3],"outputSizes":[10]}', "the graph");
      equal(made.nasConfig.operations.map((one) => one.operationType).join(), "separable_convolution,max_pooling,skip_connection,dilated_convolution", "the operations");
      check(service.asked.at(-1).includes("dilated_convolution") && service.asked.at(-1).includes("num_epochs"), "what the service was asked");
      await page.locator("tbody a[href^='#/logs']").first().click();
      await until("what the trial got", async () => (await page.textContent("main")).includes("layers=3 ['max_pooling_3x3'] {'num_epochs': 2}"), 30_000);
      await go("/experiments", page);
      await go("/new_experiment?of=katib", page);
      await field("What is searched").selectOption("nas");
      await field("What is searched").selectOption("parameters");
      await verdict("Experiment random will be created");
    },
    "a text that the form cannot change is shown, and the form waits for the next one": async () => {
      await go("/new_experiment?of=katib", page);
      await page.waitForSelector(".config-form");
      await put("apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec: {template: {spec: {containers: [{name: a, command: [true]}]}}}\n");
      await page.waitForSelector(".config-form:disabled");
      await put(resource("grid", 5));
      await page.waitForSelector(".config-form:enabled");
      equal(await field("Maximum of trials").inputValue(), "5", "the value of the text");
    },
    "no part has findings of axe, in both languages, both themes and on a phone": () => pages.axe(axe_source, ["/new_experiment?of=katib", "/experiments/grid-1?tab=katib", "/experiments/grid-1?tab=configuration"]),
    "nothing went wrong in the console, and no other host was asked": async () => equal(wrong.join("\n"), "", "the console"),
  });
} finally {
  await browser.close();
  cluster.close();
  service.close();
}
