// Icons of 16 × 16 in the colour of the text. They accompany text, so screen readers skip them.
import type { ComponentChildren } from "preact";

const draw = (paths: ComponentChildren, filled = false) => (
  <svg class="icon" viewBox="0 0 16 16" aria-hidden="true" fill={filled ? "currentColor" : "none"} stroke={filled ? "none" : "currentColor"}
    stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">{paths}</svg>
);

const kIcons = {
  overview: () => draw(<path d="M2.5 2.500h4.500v4.500h-4.500zM9 2.500h4.500v4.500H9zM2.5 9h4.500v4.500h-4.500zM9 9h4.500v4.500H9z" />),
  experiments: () => draw(<path d="M2 13.500h12M2.5 11C5 11 5 4 8 4s2.5 3.5 5.5 3.5" />),
  models: () => draw(<path d="M8 2l5.500 2.800L8 7.600 2.500 4.800zM2.5 8L8 10.800 13.500 8M2.5 11.200L8 14l5.500-2.800" />),
  projects: () => draw(<path d="M2 12.500v-9h4l1.500 2H14v7z" />),
  nodes: () => draw(<path d="M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01" />),
  actors: () => draw(<path d="M8 2l5.2 3v6L8 14l-5.2-3V5zM8 8v6M8 8l5.2-3M8 8L2.8 5" />),
  tasks: () => draw(<path d="M2.5 4l1.500 1.500L6.5 3M2.5 10.500l1.500 1.500L6.5 9.500M9 4.500h4.500M9 11h4.500" />),
  queue: () => draw(<path d="M2.5 4h11M2.5 8h11M2.5 12h6" />),
  jobs: () => draw(<path d="M2.5 4.500h11v8h-11zM5.5 4.500v-2h5v2M2.5 8h11M8 7v2" />),
  job_queue: () => draw(<path d="M2.5 3h11M2.5 6.500h8.500M2.5 10h5.500M2.5 13.500h3" />),
  job_usage: () => draw(<path d="M2.5 13.500h11M4 11V8M7 11V4.500M10 11V6.500M13 11V9.500" />),
  groups: () => draw(<path d="M2.5 2.500h11v11h-11zM2.5 8h11M8 2.500V8M5.2 10.800h.01M8 10.800h.01M10.8 10.800h.01" />),
  objects: () => draw(<path d="M13.5 4c0 1.100-2.500 2-5.500 2s-5.500-.9-5.500-2 2.500-2 5.500-2 5.500.9 5.500 2zM2.5 4v8c0 1.100 2.500 2 5.500 2s5.500-.9 5.500-2V4M2.5 8c0 1.100 2.500 2 5.500 2s5.500-.9 5.500-2" />),
  logs: () => draw(<path d="M3 2.500h10v11H3zM5.5 5.500h5M5.5 8h5M5.5 10.500h3" />),
  events: () => draw(<path d="M8.5 1.500L3.5 9H8l-.5 5.500L12.5 7H8z" />),
  drivers: () => draw(<path d="M2 3.500h12v9H2zM4.5 6.500L6.5 8l-2 1.500M8.5 10h3" />),
  users: () => draw(<path d="M6 7.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM1.500 13.500c0-2.500 2-4 4.500-4s4.500 1.500 4.500 4M10.500 3a2.200 2.200 0 0 1 0 4.200M12 9.800c1.500.5 2.500 1.800 2.500 3.700" />),
  tokens: () => draw(<path d="M10.5 9.500a3.5 3.5 0 1 0-3.3-2.300L2.5 12v1.500H5l.5-1.500H7v-1.500l1.3-1.300c.6.2 1.4.3 2.2.3zM11 5.500h.01" />),
  audit: () => draw(<path d="M3 2.500h10v11H3zM5.5 5.500h5M5.5 9.500l1.500 1.500L10.5 8" />),
  search: () => draw(<path d="M7 11.500a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.300L13.5 13.5" />),
  copy: () => draw(<path d="M5.5 5.500h8v8h-8zM3.5 10.500h-1v-8h8v1" />),
  check: () => draw(<path d="M3 8.500l3.5 3.500L13 4.5" />),
  close: () => draw(<path d="M4 4l8 8M12 4l-8 8" />),
  menu: () => draw(<path d="M2.5 4h11M2.5 8h11M2.5 12h11" />),
  sun: () => draw(<path d="M8 10.500a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM8 1.500v1.500M8 13v1.500M1.5 8H3M13 8h1.500M3.4 3.400l1 1M11.6 11.600l1 1M3.4 12.600l1-1M11.6 4.400l1-1" />),
  moon: () => draw(<path d="M13.5 9.500A6 6 0 0 1 6.5 2.500a6 6 0 1 0 7 7z" />),
  screen: () => draw(<path d="M2 3h12v8H2zM6 13.500h4M8 11v2.5" />),
  up: () => draw(<path d="M8 12.500v-9M4.5 7L8 3.5 11.5 7" />),
  down: () => draw(<path d="M8 3.500v9M4.5 9L8 12.5 11.5 9" />),
  next: () => draw(<path d="M6 3.500L10.5 8 6 12.5" />),
  warning: () => draw(<path d="M8 2.500l6 11H2zM8 6.500v3.500M8 12h.01" />),
  info: () => draw(<path d="M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 7.500V11M8 5h.01" />),
  out: () => draw(<path d="M9.5 2.500h-6v11h6M7 8h7M11.5 5.500L14 8l-2.5 2.5" />),
  download: () => draw(<path d="M8 2.500v7.500M4.800 7L8 10.200 11.200 7M3 13.500h10" />),
  table: () => draw(<path d="M2 3h12v10H2zM2 6.500h12M6 6.500V13" />),
  // Icons of states differ in shape, so that they do not depend on colour alone.
  running: () => draw(<path d="M5 3.200v9.600L12.5 8z" />, true),
  good: () => draw(<path fill-rule="evenodd" d="M8 14.500a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zm-1-3.500L3.9 7.9 5 6.800l2 2 4-4 1.1 1.100z" />, true),
  stopped: () => draw(<path d="M3.5 3.500h9v9h-9z" />, true),
  bad: () => draw(<path fill-rule="evenodd" d="M8 14.500a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM5.7 4.600L8 6.900l2.3-2.3 1.1 1.100L9.1 8l2.3 2.3-1.1 1.100L8 9.100l-2.3 2.3-1.1-1.100L6.9 8 4.6 5.700z" />, true),
  waiting: () => draw(<path d="M8 13.500a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM8 5v3l2 1.5" />),
  paused: () => draw(<path d="M4.5 3h2.500v10H4.500zM9 3h2.500v10H9z" />, true),
  alive: () => draw(<circle cx="8" cy="8" r="4" />, true),
  gone: () => draw(<path d="M8 13.500a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM4.2 11.800l7.6-7.6" />),
};
export type IconName = keyof typeof kIcons;
export const Icon = ({ name }: { name: IconName }) => kIcons[name]();
