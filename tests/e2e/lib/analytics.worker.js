/** Wraps the built worker: writes the data points for Analytics Engine, which the local runtime does not have, to standard output. */

import HubWorker, { NamespaceHub as HubObject } from './clock.worker.js';

const METRICS = { writeDataPoint: (point) => console.log(JSON.stringify({ dataPoint: point })) };

export default class extends HubWorker {
  constructor(context, env) {
    super(context, { ...env, METRICS });
  }
}

export class NamespaceHub extends HubObject {
  constructor(state, env) {
    super(state, { ...env, METRICS });
  }
}
