export function written(): unknown[];
