/**
 * Reports to the hub whether the page is visible. The hub sends a toast to visible pages, and a push notification only if
 * there is none (docs/PROTOCOL.md, `POST /api/visibility`).
 */

import { HubError } from './errors.ts';

export type Visibility = 'visible' | 'hidden';

/** A visible page repeats its report this often: without it the hub assumes that the device sleeps. */
const RENEW_INTERVAL_MS = 60_000;
/** The wait before a failed report is repeated. It doubles up to {@link RENEW_INTERVAL_MS}. */
const MIN_BACKOFF_MS = 1000;

/** The callbacks that {@link Presence} uses. */
export interface PresenceEnvironment {
  isVisible: () => boolean;
  /** Sends a report to the hub. It must also work while the page is being closed. */
  report: (subscriptionId: string, visibility: Visibility) => Promise<void>;
  /** The hub does not know the subscription: it has closed the connection, which the page may not have noticed. */
  onSubscriptionGone: () => void;
}

/** Keeps the hub informed for the current event subscription. */
export class Presence {
  #environment: PresenceEnvironment;
  #subscriptionId: string | null = null;
  /** The last visibility that the hub received, with the subscription or in a report. */
  #reported: Visibility | null = null;
  /** The number of the latest report. The outcome of an older one is ignored. */
  #latestReport = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(environment: PresenceEnvironment) {
    this.#environment = environment;
  }

  get #visibility(): Visibility {
    return this.#environment.isVisible() ? 'visible' : 'hidden';
  }

  /** Ends the previous subscription and returns the visibility that the new one starts with. */
  prepareSubscription(): Visibility {
    this.stop();
    return (this.#reported = this.#visibility);
  }

  /** Starts reporting for a new subscription. */
  handleConnected(subscriptionId: string): void {
    this.#subscriptionId = subscriptionId;
    if (this.#reported === this.#visibility) this.#scheduleReport(RENEW_INTERVAL_MS);
    else void this.#report();
  }

  /** Reports that the page was shown or hidden. Without a subscription it does nothing: the next one starts with the new value. */
  handleVisibilityChange(): void {
    this.#failures = 0;
    void this.#report();
  }

  /** Stops reporting for the current subscription. */
  stop(): void {
    this.#subscriptionId = null;
    this.#latestReport += 1;
    this.#failures = 0;
    clearTimeout(this.#timer);
  }

  async #report(): Promise<void> {
    const id = this.#subscriptionId;
    if (id === null) return;
    clearTimeout(this.#timer);
    this.#latestReport += 1;
    const reportNumber = this.#latestReport;
    const visibility = this.#visibility;
    try {
      await this.#environment.report(id, visibility);
      if (reportNumber !== this.#latestReport) return;
      this.#failures = 0;
      this.#reported = visibility;
      this.#scheduleReport(RENEW_INTERVAL_MS);
    } catch (error) {
      if (reportNumber !== this.#latestReport) return;
      if (error instanceof HubError && !error.isTransient) {
        this.stop();
        if (error.status === 404) this.#environment.onSubscriptionGone();
        return;
      }
      this.#reported = null;
      this.#scheduleReport(Math.min(MIN_BACKOFF_MS * 2 ** this.#failures, RENEW_INTERVAL_MS));
      this.#failures += 1;
    }
  }

  #scheduleReport(ms: number): void {
    clearTimeout(this.#timer);
    // A page that was reported as hidden has nothing to renew.
    this.#timer = this.#reported === 'hidden' ? undefined : setTimeout(() => void this.#report(), ms);
  }
}
