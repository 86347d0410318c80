// Parts of the page that are loaded when they are shown first.
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Loading, failure } from "./parts";
import { toast } from "./toast";

// The module, or null until it is there. `load`: a dynamic import; null: nothing is loaded.
export function use_loaded<Module>(load: (() => Promise<Module>) | null): Module | null {
  const [module, set_module] = useState<Module | null>(null);
  const wanted = load !== null;
  useEffect(() => {
    if (!load || module) return;
    load().then(set_module, (error: unknown) => {
      const { what, next } = failure(error);
      toast(`${what} ${next}`, "bad");
    });
  }, [wanted]);
  return module;
}

// A page that is loaded when it is opened.
export function Later({ load }: { load: () => Promise<ComponentType> }) {
  const page = use_loaded(() => load().then((Page) => ({ Page })));
  return page ? <page.Page /> : <Loading />;
}
