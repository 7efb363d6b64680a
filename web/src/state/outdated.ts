/**
 * The resources that the page shows although their last fetch has failed, for example after a gap in the events. Repeats these fetches, with
 * a growing pause, until they succeed.
 */

import { HubError } from '../api/errors.ts';
import { openInboxItem, openSessionId, outdatedResources } from './store.ts';

const MIN_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;

/** `setTimeout`; tests replace it. */
export type SetTimer = (callback: () => void, ms: number) => unknown;

interface FailedFetch {
  repeat: () => Promise<void>;
  /** Of the session to which the resource belongs. */
  sessionId: string | undefined;
}

export class Outdated {
  #fetches = new Map<string, FailedFetch>();
  #setTimer: SetTimer;
  #isWaiting = false;
  #pauseMs = MIN_PAUSE_MS;

  constructor(setTimer: SetTimer) {
    this.#setTimer = setTimer;
  }

  /**
   * To be called when the fetch of a resource that the page shows has failed. If the hub has refused the fetch for good, the fetch is not
   * repeated: an older hub may lack the route.
   */
  handleFailure(resource: string, error: unknown, repeat: () => Promise<void>, sessionId?: string): void {
    if (error instanceof HubError && !error.isTransient) {
      this.delete(resource);
      return;
    }
    this.#fetches.set(resource, { repeat, sessionId });
    this.#publish();
    this.#repeatLater();
  }

  /** To be called when the resource was fetched, or the page no longer shows it. */
  delete(resource: string): void {
    if (!this.#fetches.delete(resource)) return;
    if (this.#fetches.size === 0) this.#pauseMs = MIN_PAUSE_MS;
    this.#publish();
  }

  /** Repeats the failed fetches now. Sessions that are not shown are fetched again when they are opened. */
  async repeat(): Promise<void> {
    const shownIds = [undefined, openSessionId.value, openInboxItem.value?.sessionId];
    await Promise.all(
      [...this.#fetches].map(([resource, { repeat, sessionId }]) => (shownIds.includes(sessionId) ? repeat() : this.delete(resource))),
    );
  }

  #repeatLater(): void {
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    const onTime = () => {
      this.#isWaiting = false;
      void this.repeat();
    };
    // Many pages lose the hub at the same time: they must not return at the same time.
    this.#setTimer(onTime, this.#pauseMs * (0.75 + Math.random() / 2));
    this.#pauseMs = Math.min(this.#pauseMs * 2, MAX_PAUSE_MS);
  }

  #publish(): void {
    outdatedResources.value = new Set(this.#fetches.keys());
  }
}
