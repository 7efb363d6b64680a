/** The scenarios by name, in the order in which they run. */

const NAMES = ['start', 'runtime', 'rpc', 'ingest', 'sse', 'list', 'page', 'post', 'clis'];

/** What runs only when it is named: what lasts, with nothing to set beside it. */
const LONG = ['load', 'tenants', 'idle'];

export function scenarioNames() {
  return [...NAMES, ...LONG];
}

/** What runs when nothing is named. */
export function usualScenarioNames() {
  return [...NAMES];
}

/** `{name, rows, run, where}`; `where` is `generator` (the load generator's process) unless the scenario says `host`. */
export async function scenario(name) {
  const { rows, run, where = 'generator' } = await import(`../scenarios/${name}.mjs`);
  return { name, rows, run, where };
}
