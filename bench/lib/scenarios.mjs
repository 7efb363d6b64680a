/** The scenarios by name, in the order in which they run. */

/** Scenarios whose slices compare two builds. */
const COMPARED = ['rpc', 'ingest', 'sse', 'create', 'list', 'page', 'post'];

/** Scenarios that run only when `--only` or a command names them. */
const LONG = ['load', 'tenants', 'long-session', 'capacity', 'cost'];

const DEFAULT = ['start', 'runtime', ...COMPARED, 'clis'];

export const SCENARIOS = { all: [...DEFAULT, ...LONG], default: DEFAULT, compared: COMPARED };

/**
 * Loads a scenario:
 * - `rows`: the rows of the scenario in the result table, with their names and units
 * - `run`: the function that runs the scenario
 * - `startsRuntimes`: whether the scenario starts the runtimes itself
 */
export const loadScenario = (name) => import(`../scenarios/${name}.mjs`);
