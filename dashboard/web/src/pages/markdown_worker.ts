// Parses notes beside the page, because a hostile one can keep the parser busy for minutes.
import { tokens_of } from "./markdown_tokens";

self.onmessage = ({ data }: MessageEvent<string>) => {
  try {
    self.postMessage(tokens_of(data));
  } catch {
    self.postMessage(null);  // Nested too deeply to be sent.
  }
};
