/** The scenarios by name, in the order in which they run. */

/** Scenarios whose slices compare two builds. */
const COMPARED = ['rpc', 'ingest', 'sse', 'page', 'post'];

/** Scenarios of the hub alone, which run only when `--only` or a command names them. */
const LONG = ['load', 'tenants', 'long-session', 'capacity', 'cost'];

export const SCENARIOS = { all: [...COMPARED, ...LONG], compared: COMPARED };

/**
 * Loads a scenario:
 * - `rows`: the rows of the scenario in the result table, with their names and units
 * - `run`: the function that runs the scenario
 * - `startsRuntimes`: whether the scenario starts the runtimes itself
 */
export const loadScenario = (name) => import(`../scenarios/${name}.mjs`);
