/** The scenarios by name, in the order in which they run. */

const NAMES = ['start', 'runtime', 'rpc', 'ingest', 'sse', 'stream', 'list', 'page', 'post', 'clis'];

/** Long scenarios, which run only when `--only` names them. */
const LONG = ['load', 'tenants', 'idle', 'cost'];

export function scenarioNames() {
  return [...NAMES, ...LONG];
}

/** The scenarios that run without `--only`. */
export function defaultScenarioNames() {
  return [...NAMES];
}

/**
 * Loads a scenario: `{name, rows, run, where}`. `rows`: the names and units of its rows in the result table. `where` is the process that runs it: `generator`, the load generator (the
 * default), or `host`, the main process, which starts the runtimes and the load generator.
 */
export async function loadScenario(name) {
  const { rows, run, where = 'generator' } = await import(`../scenarios/${name}.mjs`);
  return { name, rows, run, where };
}
