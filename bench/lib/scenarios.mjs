/** The scenarios by name, in the order in which they run. */

const NAMES = ['start', 'runtime', 'rpc', 'ingest', 'sse', 'stream', 'create', 'list', 'page', 'post', 'connect', 'clis', 'wake'];

/** Long scenarios, which run only when `--only` names them. */
const LONG = ['load', 'tenants', 'long-session', 'capacity', 'idle', 'cost'];

/** Scenarios that cannot compare two builds, because they have no slices in which the builds could take turns. */
const NOT_COMPARED = ['start', 'runtime', 'clis'];

export function scenarioNames() {
  return [...NAMES, ...LONG];
}

/** Returns the scenarios that run without `--only`. */
export function defaultScenarioNames() {
  return [...NAMES];
}

/** Returns the scenarios that can compare two builds. */
export function comparedScenarioNames() {
  return NAMES.filter((name) => !NOT_COMPARED.includes(name));
}

/**
 * Loads a scenario:
 * - `rows`: the rows of the scenario in the result table, with their names and units
 * - `run`: the function that runs the scenario
 * - `where`: the process that runs the scenario. `generator`: the load generator (default). `host`: the main process, which starts the
 *   runtimes and the load generator.
 */
export async function loadScenario(name) {
  const { rows, run, where = 'generator' } = await import(`../scenarios/${name}.mjs`);
  return { name, rows, run, where };
}
