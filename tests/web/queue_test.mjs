// Tests the page of the job queue, batches and the form of jobs by user input, in Chromium with a simulated cluster.
// VOLADOR_WEB_CASES=REGEX selects cases; VOLADOR_WEB_SHOTS=FOLDER saves screenshots in both themes, both languages and at phone width.
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { axe_source, check, equal, until } from "./harness.mjs";
import { over_made_up_cluster, settled } from "./tab.mjs";

const { start, tab, run_all } = await over_made_up_cluster();
const shots = process.env.VOLADOR_WEB_SHOTS;
if (shots) mkdirSync(shots, { recursive: true });

const card = (page, title) => page.locator(`.card:has(h2:text-is("${title}"))`);
const row = (page, title, name) => card(page, title).locator(`tbody tr:has-text("${name}")`);
const field = (page, label) => page.locator(`dialog .field:has(label:has-text("${label}"))`);
const present = async (page) => page.evaluate(async () => (await (await fetch("/api/v1/job_queue")).json()).settings);
const save = (page) => page.click("dialog button[type=submit]");
const no_dialog = (page) => until("the dialog is gone", async () => (await page.locator("dialog").count()) === 0);
const names = (page) => page.locator("tbody tr.opens td:nth-child(3)").allTextContents();

// Fills in the form with an array of four jobs and submits it.
async function submit_array(page, go, name) {
  await go("/jobs");
  await page.click(".page-head button.primary");
  await page.fill("dialog textarea", "python3 sweep.py --seed $VOLADOR_TASK_INDEX");
  await field(page, "Name").locator("input").fill(name);
  await page.click("dialog summary");
  await field(page, "Size of the array").locator("input").fill("4");
}

await run_all("web_queue", {
  "an operator changes the limits of a project; a refusal stands at its field, and settings changed by others are noticed": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/jobs");
    await page.click(".page-head a >> text=Job queue");
    await until("the page", async () => (await page.textContent("h1")) === "Job queue");
    await until("a pool with its projects", async () => (await row(page, "Pools", "a100").textContent()).includes("language, vision"));
    check((await row(page, "Projects", "language").textContent()).includes("2 / 4"), "GPUs that a project holds, of its limit");
    await row(page, "Projects", "vision").locator("button >> text=Edit").click();
    await field(page, "Limit of CPUs").locator("input").fill("-1");
    await save(page);
    await until("the refusal at its field", async () => (await field(page, "Limit of CPUs").locator(".field-error").textContent()).includes("got cpus: -1"));
    equal(await field(page, "Limit of CPUs").locator("input").getAttribute("aria-invalid"), "true", "the field is marked");
    check((await page.locator("dialog").count()) === 1, "the form stays open");
    wrong.length = 0;  // The browser notes the refusal.
    await field(page, "Limit of CPUs").locator("input").fill("24");
    await field(page, "Limit of memory").locator("input").fill("64");
    await field(page, "custom resources").locator("input").fill("licence");
    await save(page);
    await until("how to write them", async () => (await field(page, "custom resources").textContent()).includes("licence=2"));
    await field(page, "custom resources").locator("input").fill("licence=2");
    await save(page);
    await no_dialog(page);
    await until("the new limit", async () => (await row(page, "Projects", "vision").textContent()).includes("0 / 24"));
    let settings = await present(page);
    equal(JSON.stringify(settings.projects.find((one) => one.name === "vision").limits), JSON.stringify({ cpus: 24, memory: 2 ** 36, licence: 2 }), "limits that are saved");
    equal(settings.pools.length + settings.environments.length, 2, "the other settings stay");
    equal(settings.version, 4, "version");

    await row(page, "Projects", "language").locator("button >> text=Edit").click();
    await page.evaluate(async () => {
      const { settings } = await (await fetch("/api/v1/job_queue")).json();
      settings.projects.find((one) => one.name === "language").weight = 5;
      await fetch("/api/v1/job_queue", { method: "POST", headers: { "X-Volador-Request": "1" }, body: JSON.stringify({ settings }) });
    });
    await field(page, "Weight").locator("input").fill("3");
    await save(page);
    await until("the conflict", async () => (await page.textContent("dialog [role=alert]")).includes("Someone has changed"));
    wrong.length = 0;
    await page.click("dialog >> text=Load the present settings");
    await until("the weight that the other has set", async () => (await field(page, "Weight").locator("input").inputValue()) === "5");
    await field(page, "Weight").locator("input").fill("6");
    await save(page);
    await no_dialog(page);
    settings = await present(page);
    equal(settings.projects.find((one) => one.name === "language").weight, 6, "its weight");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "the hours of the chosen days by project, with idle hours, and as a file": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/jobs");
    await page.click(".page-head a >> text=Usage");
    await until("the page", async () => (await page.textContent("h1")) === "Usage");
    const tile = (name) => page.locator(`.tile:has(.tile-name:text-is("${name}")) b`).textContent();
    await until("the hours of 30 days", async () => Number((await tile("GPU hours")).replace(/\D/g, "")) > 1000);
    const month = await tile("GPU hours");
    check((await page.textContent(".tiles")).includes("% idle"), "the idle share");
    check((await row(page, "By project and owner", "language").textContent()).includes("60"), "runs of a project");
    equal(await row(page, "By project and owner", "vision").count(), 2, "a row for each owner");
    equal(await row(page, "By project and owner", "Idle").count(), 1, "idle hours");
    await page.selectOption(".page-head select", "7");
    await until("fewer hours", async () => (await tile("GPU hours")) !== month);
    await page.selectOption(".card select", "cpu_hours");
    await until("the address has the choice", async () => page.url().includes("days=7") && page.url().includes("hours=cpu_hours"));
    const [file] = await Promise.all([page.waitForEvent("download"), page.click(".page-head button >> text=CSV")]);
    const text = readFileSync(await file.path(), "utf8");
    equal(text.split("\n")[0], "day,project,owner,cpu_hours,gpu_hours,memory_gib_hours,attempts", "head of the file");
    equal(new Set(text.split("\n").slice(1, -1).map((line) => line.split(",")[0])).size, 7, "days in the file");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "a job's page has the use of its ranks over time, a line for each": async () => {
    const { page, wrong, go, close } = await tab();
    await go("/jobs/job-7");
    await until("the curves", async () => (await card(page, "Resource use").locator("h3").allTextContents()).join() === "CPU cores,Private memory,GPU utilisation");
    equal((await card(page, "Resource use").locator("section").first().locator(".legend-entry").allTextContents()).map((one) => one.trim()).join(), "0 · heron,1 · osprey", "lines of CPU cores");
    equal(wrong.join("\n"), "", "noted");
    await close();
  },
  "reports of the settings are shown, and stay when others change": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/job_queue");
    await until("the reports", async () => (await card(page, "Reports").textContent()).includes("ops-feishu feishu"));
    check((await card(page, "Reports").textContent()).includes("smtp.example.org"), "the mail server");
    await page.selectOption(".side select", "urgent");
    await page.click("dialog button.danger");
    await no_dialog(page);
    const settings = await present(page);
    equal(settings.preemption, "urgent", "preemption");
    equal(settings.notifications[0].secret, "***", "reports stay");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "pools and environments are added, changed, and removed after a question; preemption too; the same as YAML": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/job_queue");
    await page.click("text=Add a pool");
    await field(page, "Name").locator("input").fill("old");
    await field(page, "Projects that may use it").locator("input").fill("vision, language");
    await save(page);
    await no_dialog(page);
    await until("the pool", () => row(page, "Pools", "old").count().then((n) => n === 1));
    await page.click("text=Add an environment");
    await field(page, "Name").locator("input").fill("jax");
    await field(page, "Source").locator("input").fill("jax");
    await save(page);
    await until("the refusal at its field", async () => (await field(page, "Source").textContent()).includes("expected host, a path"));
    wrong.length = 0;
    await field(page, "Source").locator("input").fill("/opt/jax");
    await save(page);
    await no_dialog(page);
    const yaml = () => card(page, "The settings as a file").locator("pre").first().textContent();
    await until("both in the YAML", async () => /  old:\n    projects: \[vision, language\]/.test(await yaml()) && /  jax:\n    source: \/opt\/jax/.test(await yaml()));
    await row(page, "Environments", "cuda12").locator("button >> text=Edit").click();
    await page.click("dialog >> text=Remove");
    check((await page.textContent("dialog")).includes("Jobs can no longer name it"), "what removing means");
    await page.click("dialog button.danger.primary");
    await no_dialog(page);
    await until("it is gone", async () => !(await yaml()).includes("cuda12"));
    await card(page, "Preemption").locator("select").selectOption("urgent");
    await page.click("dialog button.primary");
    await until("the preemption", async () => (await present(page)).preemption === "urgent" && (await yaml()).startsWith("preemption: urgent"));
    await row(page, "Pools", "a100").locator("td").first().click();
    await until("jobs of the pool", async () => (await names(page)).join() === "finetune" && (await page.getAttribute("#main", "data-at")) === "/jobs?pool=a100");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "a viewer reads the queue and changes nothing": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server, token: "vt1.viewer" });
    await go("/job_queue");
    await until("the pools", () => row(page, "Pools", "a100").count().then((n) => n === 1));
    await until("the queued job", async () => (await card(page, "Queued jobs").textContent()).includes("evaluate"));
    equal(await page.locator("main .card button:not(th button, .code button)").count(), 0, "buttons of a viewer");
    equal(await page.locator("main select").count(), 0, "choices of a viewer");
    equal(await page.locator('main [draggable="true"]:not(th button)').count(), 0, "jobs that a viewer can drag");
    check((await card(page, "Preemption").textContent()).includes("none"), "what preempts");
    await go("/jobs");
    await page.waitForSelector("tbody tr.opens");
    equal(await page.locator("td.pick").count(), 0, "rows that a viewer can select");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "an array is submitted, is one row that opens, and is stopped and deleted as a whole": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await submit_array(page, go, "sweep-7");
    check((await page.textContent("dialog .yaml")).includes("volador job submit --file=job.yaml --array=4"), "the same in a terminal");
    await page.click("dialog button[type=submit]");
    await until("its batch", async () => (await page.getAttribute("#main", "data-at")) === "/jobs?batch=sweep-7" && (await names(page)).length === 4);
    equal((await names(page)).sort().join(), "sweep-7-0,sweep-7-1,sweep-7-2,sweep-7-3", "its jobs");
    await go("/jobs");
    await until("one row for all", async () => (await names(page)).filter((one) => one.startsWith("sweep-7")).join() === "sweep-7");
    const group = page.locator("tbody tr.opens:has-text('sweep-7')");
    check((await group.textContent()).includes("4 queued"), await group.textContent());
    equal(await group.locator(".state-bar").getAttribute("aria-label"), "4 queued", "its bar in words");
    await group.locator("td:nth-child(5)").click();
    await until("the batch is open", async () => (await page.getAttribute("#main", "data-at")) === "/jobs?batch=sweep-7" && (await names(page)).length === 4);
    await page.click("tbody tr.opens:has-text('sweep-7-2') td:nth-child(3)");
    await until("the place in its batch", async () => (await page.textContent(".facts:has-text('Batch')")).includes("3 of 4"));
    await page.click('.facts a:text-is("sweep-7")');
    await until("the batch again", async () => (await names(page)).length === 4);
    await page.click(".batch button >> text=Stop 4");
    check((await page.textContent("dialog h2")) === "Stop 4 jobs of the batch sweep-7?", await page.textContent("dialog h2"));
    await page.click("dialog button.primary.danger");
    await until("all are stopped", async () => (await page.textContent(".batch [role=status]")) === "4 stopped");
    check(await page.isDisabled(".batch button >> text=Stop 0"), "nothing is left to stop");
    await page.click(".batch button >> text=Delete 4");
    await page.click("dialog button.primary.danger");
    await until("all are deleted", async () => (await page.textContent("main")).includes("No row matches this filter"));
    await page.click(".empty button");
    await until("the other jobs", async () => (await names(page)).length === 6);
    await page.click("tbody tr:has-text('sweep') td.pick");
    await page.click("tbody tr:has-text('profile') td.pick");
    await page.click(".many button >> text=Delete 2");
    await page.click("dialog button.primary.danger");
    await until("without the two", async () => (await names(page)).join() === "evaluate,finetune,imagenet,prepare");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "the form marks the field that the head refuses, and says the job as YAML": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/jobs");
    await page.click(".page-head button.primary");
    await page.fill("dialog textarea", "python3 train.py");
    await field(page, "Pool").locator("select").selectOption("a100");
    await field(page, "Runs in").locator("input").fill("cuda13");
    await until("the refusal at its field", async () => (await field(page, "Runs in").textContent()).includes('there is no environment "cuda13"'));
    await field(page, "Runs in").locator("input").fill("cuda12");
    await until("no refusal", async () => (await page.locator("dialog .field-error").count()) === 0 && (await page.textContent("dialog .prediction")) === "starts now");
    await page.click("dialog summary");
    await field(page, "Mounts").locator("textarea").fill("data:/data");
    await until("the refusal at the mounts", async () => (await field(page, "Mounts").textContent()).includes("absolute path of the host"));
    await page.click("dialog summary");
    await page.click("dialog summary");
    await field(page, "Mounts").locator("textarea").fill("/data:/data:ro");
    await field(page, "Environment variables").locator("textarea").fill("SEED=7\nNAME=a b");
    await field(page, "Before the command").locator("textarea").fill("pip install .");
    await field(page, "Stop signal").locator("select").selectOption("USR1");
    equal(await page.locator("dialog .yaml pre").first().textContent(), 'command: "python3 train.py"\npool: a100\nenvironment: cuda12\nstop_signal: USR1\nsetup: "pip install ."\nmounts:\n  - /data:/data:ro\nenv:\n  SEED: "7"\n  NAME: "a b"\n', "the job as a file");
    wrong.length = 0;
    await page.click("dialog button[type=submit]");
    await until("its page", async () => (await page.textContent("main")).includes("SIGUSR1") && (await page.textContent("main")).includes("SEED=7"));
    const job = await page.evaluate(async () => (await (await fetch("/api/v1/jobs")).json()).rows[0].spec);
    equal(JSON.stringify([job.pool, job.environment, job.setup, job.mounts, job.env]), JSON.stringify(["a100", "cuda12", "pip install .", ["/data:/data:ro"], { SEED: "7", NAME: "a b" }]), "what was submitted");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "what a job needs, who may see it and its alternatives are in a closed part of the form": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/jobs");
    await page.click(".page-head button.primary");
    await page.fill("dialog textarea", "python3 train.py");
    equal(await page.locator("dialog details").getAttribute("open"), null, "closed at first");
    await page.click("dialog summary");
    await field(page, "Fewest nodes").locator("input").fill("2");
    await until("the refusal at its field", async () => (await field(page, "Fewest nodes").textContent()).includes("expected 1 to the job's nodes (1), got 2"));
    await page.locator("dialog .field:has(span:text-is('Nodes')) input").fill("2");
    await field(page, "Fewest nodes").locator("input").fill("1");
    await page.click("dialog label.check >> text=continue on more nodes");
    await field(page, "Only on nodes with the labels").locator("input").fill("zone");
    await until("how to write labels", async () => (await field(page, "Only on nodes with the labels").textContent()).includes("zone=a, disk=ssd."));
    await field(page, "Only on nodes with the labels").locator("input").fill("zone=a");
    await field(page, "Custom resources").locator("input").fill("licence=2");
    await field(page, "After the command").locator("textarea").fill("./clean.sh");
    await field(page, "Keep its nodes").locator("input").fill("60");
    await field(page, "Resumes after").locator("input").fill("3");
    await field(page, "Log policies").locator("textarea").fill("notify: loss is nan");
    await field(page, "Access of others").locator("select").selectOption("none");
    await field(page, "Reports to").locator("input").fill("ops-feishu");
    await field(page, "Alternatives").locator("textarea").fill("gpus=2,cpus=99");
    await until("the refusal of the alternative", async () => (await field(page, "Alternatives").textContent()).includes("gpus=2,cpus=99: never: it needs 99 CPUs"));
    await field(page, "Alternatives").locator("textarea").fill("gpus=2,pool=a100");
    equal(await page.locator("dialog .yaml pre").first().textContent(), `command: "python3 train.py"
access: none
teardown: ./clean.sh
nodes: 2
min_nodes: 1
grow: true
debug: 3600s
max_resumes: 3
labels:
  zone: a
resources:
  licence: 2
notify: [ops-feishu]
log_policies:
  - pattern: "loss is nan"
    action: notify
alternatives:
  - {}
  - {gpus: 2, pool: a100}
`, "the job as a file");
    await until("no refusal", async () => (await page.locator("dialog .field-error").count()) === 0 && (await page.textContent("dialog .prediction")) === "starts now");
    wrong.length = 0;  // The browser notes the refusals.
    await page.click("dialog button[type=submit]");
    await until("the page of the first", async () => (await page.textContent(".toasts")).includes("2 alternatives are submitted."));
    const [second, first] = await page.evaluate(async () => (await (await fetch("/api/v1/jobs")).json()).rows.map((one) => one.spec));
    equal(JSON.stringify([first.access, first.debug_s, first.max_resumes, first.min_nodes, first.grow, first.labels, first.resources, first.teardown]), JSON.stringify(["none", 3600, 3, 1, true, { zone: "a" }, { licence: 2 }, "./clean.sh"]), "what was submitted");
    equal(JSON.stringify([first.gpus, first.pool, second.gpus, second.pool, second.access, second.one_of === first.one_of]), JSON.stringify([0, "default", 2, "a100", "none", true]), "the alternative");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "a queued job is dragged to another priority, or changed by its button from the keyboard": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, go, close } = await tab({ server });
    await go("/job_queue");
    const group = (priority) => page.locator(`[data-priority=${priority}]`);
    await until("it is in its group", async () => (await group("normal").textContent()).includes("evaluate"));
    await group("normal").locator("li").dragTo(group("very_urgent"));
    await until("it is in the other group", async () => (await group("very_urgent").textContent()).includes("evaluate") && !(await group("normal").textContent()).includes("evaluate"));
    equal(await page.evaluate(async () => (await (await fetch("/api/v1/jobs/job-8")).json()).spec.priority), "very_urgent", "its priority");
    await page.focus("[data-priority=very_urgent] button");
    await page.keyboard.press("Enter");
    await page.selectOption("dialog select", "urgent");
    await page.click("dialog button.primary");
    await until("it is urgent", async () => (await group("urgent").textContent()).includes("evaluate"));
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "the command palette finds jobs": async () => {
    const server = await start({ trials: 40, still: true });
    const { page, wrong, close } = await tab({ server });
    await page.keyboard.press("Control+k");
    await page.waitForSelector("dialog.palette[open]");
    await page.keyboard.type("finetune");
    await until("the job", async () => (await page.locator(".palette li").first().textContent()) === "finetune · job-7Job, running");
    await page.keyboard.press("Enter");
    await until("its page", async () => (await page.textContent("h1")) === "finetune");
    equal(wrong.join("\n"), "", "noted");
    await close();
    await server.close();
  },
  "forms and batches can be read by screen readers, hold on a phone, and keep still while the page refreshes": async () => {
    const server = await start({ trials: 40, still: true });
    const first = await tab({ server });
    await submit_array(first.page, first.go, "sweep-7");
    await first.page.click("dialog button[type=submit]");
    await until("its batch", async () => (await names(first.page)).length === 4);
    await first.close();
    const found = [];
    for (const theme of ["light", "dark"]) for (const lang of ["en-US", "zh-CN"]) for (const phone of [false, true]) {
      const { page, wrong, go, close } = await tab({ server, theme, lang, phone });
      const shot = async (name) => { if (shots) await page.screenshot({ path: join(shots, `${name}-${theme}-${lang}${phone ? "-phone" : ""}.png`) }); };
      const look = async (name) => {
        await settled(page);
        await shot(name);
        equal(await page.evaluate(() => { const box = document.querySelector("dialog[open] .dialog-body") ?? document.querySelector(".page-body"); return box.scrollWidth - box.clientWidth; }), 0, `${name}: px out of sight`);
        if (lang !== "en-US" || phone) return;
        if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe_source());
        const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] }));
        for (const one of violations) found.push(`${name} ${theme}: ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target + " " + (node.any[0]?.message ?? "")).join("; ")}`);
      };
      await go("/job_queue");
      await page.waitForSelector(".urgency li");
      await look("queue");
      const places = () => page.evaluate(() => [...document.querySelectorAll(".card")].map((one) => Math.round(one.getBoundingClientRect().top)).join());
      if (theme === "light" && lang === "en-US") {
        const before = await places();
        for (let refresh = 0; refresh < 2; refresh++) await page.waitForResponse((one) => one.url().endsWith("/api/v1/job_queue"));
        equal(await places(), before, "places of the cards after a refresh");
      }
      if (phone) await page.locator(".page-body").evaluate((box) => { box.scrollTop = box.scrollHeight; });
      if (phone) await shot("queue-end");
      await page.locator(".card").nth(1).locator("button.small").last().click();
      await look("project");
      await page.keyboard.press("Escape");
      await go("/jobs");
      await page.waitForSelector("tbody tr.opens");
      await look("jobs");
      await go("/jobs?batch=sweep-7");
      await page.waitForSelector(".batch");
      await look("batch");
      if (phone) await page.click(".page-head .popover-button");
      await page.click(".page-head button.primary");
      await page.fill("dialog textarea", "python3 train.py \\\n  --epochs 3");
      await page.locator("dialog .field input").nth(2).fill("cuda13");
      await page.click("dialog summary");
      await page.waitForSelector(".field-error");
      await look("form");
      for (const [name, heading] of [["form-more", 0], ["form-ends", 2]]) {
        await page.locator("dialog .further h3").nth(heading).evaluate((one) => one.scrollIntoView());
        await look(name);
      }
      check(wrong.every((one) => one.includes("404")), wrong.join("\n"));
      await close();
    }
    equal(found.join("\n"), "", "axe");
    await server.close();
  },
});
