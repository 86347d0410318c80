// Texts of files, which Vite puts into the bundle.
declare module "*.yaml?raw" {
  const text: string;
  export default text;
}
declare module "*.json?english" {
  const texts: Record<string, string>;
  export default texts;
}
