// A code folder that the user chose or dropped: which files travel, and their way to the head.
import { call } from "../api";
import { pack_code, to_base64, type CodeFile } from "./code_archive";

export const kBytesMost = 20 << 20;  // Larger folders travel by `volador experiment create`.
export const kFilesMost = 5000;
const kPart = 45_000;  // Bytes in one request, whose body may have 64 KiB.

export interface Chosen {
  name: string;
  files: CodeFile[];
  left_out: number;
  bytes: number;
}
export class TooLarge extends Error {}

// Whether patterns of .gitignore, .detignore or .voladorignore name the path.
export function rules_of(text: string): (path: string) => boolean {
  const rules = text.split("\n").map((line) => line.trim()).filter((line) => line && !line.startsWith("#")).map((line) => {
    const keeps = line.startsWith("!");
    let pattern = keeps ? line.slice(1) : line;
    const folder = pattern.endsWith("/");
    if (folder) pattern = pattern.slice(0, -1);
    const rooted = pattern.includes("/");
    const source = pattern.replace(/^\//, "").replace(/[.+^${}()|\\]/g, "\\$&").replace(/\*\*\/|\*\*|\*|\?/g, (one) => (one === "**/" ? "(?:.*/)?" : one === "**" ? ".*" : one === "*" ? "[^/]*" : "[^/]"));
    return { keeps, test: new RegExp(`^${rooted ? "" : "(?:.*/)?"}${source}${folder ? "/" : "(?:/|$)"}`) };
  });
  return (path) => rules.reduce((out, rule) => (rule.test.test(path) ? !rule.keeps : out), false);
}

const kNever = /(?:^|\/)(?:\.git|\.venv|__pycache__|\.ipynb_checkpoints|node_modules)\/|\.pyc$|(?:^|\/)\.DS_Store$/;

// `found`: paths that begin with the name of the folder, as browsers give them.
export async function chosen_of(found: { path: string; file: File }[]): Promise<Chosen> {
  const top = found[0]?.path.split("/")[0] ?? "";
  const nested = found.length > 0 && found.every((one) => one.path.startsWith(top + "/"));
  const inside = found.map(({ path, file }) => ({ path: nested ? path.slice(top.length + 1) : path, file }));
  const rules = await Promise.all([".gitignore", ".detignore", ".voladorignore"].map(async (name) => (await inside.find((one) => one.path === name)?.file.text()) ?? ""));
  const ignored = rules_of(rules.join("\n"));
  const kept = inside.filter((one) => !kNever.test(one.path) && !ignored(one.path));
  const bytes = kept.reduce((sum, one) => sum + one.file.size, 0);
  if (bytes > kBytesMost || kept.length > kFilesMost) throw new TooLarge();
  const files = await Promise.all(kept.map(async ({ path, file }) => ({ path, data: new Uint8Array(await file.arrayBuffer()), executable: /\.sh$/.test(path) })));
  return { name: nested ? top : files.length === 1 ? files[0].path : "", files, left_out: inside.length - kept.length, bytes };
}

// Everything below what was dropped.
export async function dropped(transfer: DataTransfer): Promise<{ path: string; file: File }[]> {
  const out: { path: string; file: File }[] = [];
  const walk = async (entry: FileSystemEntry): Promise<void> => {
    if (entry.isFile) {
      const file = await new Promise<File>((done, fail) => (entry as FileSystemFileEntry).file(done, fail));
      out.push({ path: entry.fullPath.replace(/^\//, ""), file });
      return;
    }
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    for (;;) {
      const part = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail));
      if (!part.length) return;
      for (const one of part) if (out.length <= kFilesMost && !kNever.test(one.fullPath + (one.isDirectory ? "/" : ""))) await walk(one);
    }
  };
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  for (const entry of entries) await walk(entry);
  return out;
}

// Sends the archive unless the head has it; returns its hash. `on_part`: the share that is sent.
export async function send_code(files: CodeFile[], on_part: (share: number) => void): Promise<string> {
  const { archive, sha256 } = pack_code(files);
  const put = (offset: number, data?: string) => call<{ complete: boolean }>("POST", "/api/v1/job_files", { sha256, size_bytes: archive.length, offset, ...(data === undefined ? {} : { data }) });
  let { complete } = await put(0);
  for (let offset = 0; !complete && offset < archive.length; offset += kPart) {
    ({ complete } = await put(offset, to_base64(archive.subarray(offset, offset + kPart))));
    on_part(Math.min(1, (offset + kPart) / archive.length));
  }
  return sha256;
}
