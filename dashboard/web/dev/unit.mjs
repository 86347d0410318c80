// Bundles test/*.test.ts with esbuild, which Vite depends on, and runs them with Node's test runner.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const out = mkdtempSync(join(tmpdir(), "volador-web-"));
try {
  const tests = readdirSync(join(root, "test")).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: tests.map((name) => join(root, "test", name)), outdir: out, outExtension: { ".js": ".mjs" }, bundle: true, format: "esm", platform: "browser",
    jsx: "automatic", jsxImportSource: "preact", external: ["node:*"], logLevel: "error",
  });
  const run = spawnSync(process.execPath, ["--test", ...tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")))], { stdio: "inherit", cwd: root });
  process.exitCode = run.status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
