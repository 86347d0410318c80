// Explanation of an object's state; what shows it is loaded when it is opened.
import { use_loaded } from "../ui/loaded";
import { Loading } from "../ui/parts";

// Reloads when `version` changes. `known`: a reason that the page already shows, which is left out; `with_error`: the page shows the error of the trial.
export interface Props { id: string; version: string; known?: string; with_error?: boolean }

export function Explained(props: Props) {
  const view = use_loaded(() => import("./explained_view"));
  return view ? <view.View {...props} /> : <Loading />;
}
