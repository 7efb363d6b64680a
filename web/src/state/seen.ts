/** Reports which sessions the user has seen. */

import { HubError } from '../api/errors.ts';
import type { SessionSummary } from '../api/types.ts';
import { getOwn } from './get-own.ts';

export class SeenReports {
  #report: (id: string, at: number) => Promise<void>;
  /** By session id: the latest `unseenSince` that was reported. */
  #reported = new Map<string, number>();

  /** @param report sends a report to the hub, and rejects if the hub did not accept the report */
  constructor(report: (id: string, at: number) => Promise<void>) {
    this.#report = report;
  }

  /**
   * Reports each `unseenSince` of a session only once. `id`: the open session; null if no session is open, or the user is not using the
   * page.
   */
  update(id: string | null, summaries: Readonly<Record<string, SessionSummary>>): void {
    const since = id === null ? undefined : getOwn(summaries, id)?.unseenSince;
    if (id === null || since === undefined || this.#reported.get(id) === since) return;
    this.#reported.set(id, since);
    // After a transient error, the next change of the state tries again.
    this.#report(id, since).catch((error: unknown) => {
      if (error instanceof HubError && error.isTransient) this.#reported.delete(id);
    });
  }
}
