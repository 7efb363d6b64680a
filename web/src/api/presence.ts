/**
 * Reports to the hub whether a person uses the page. While a person uses the page, the hub holds back pushes to this device, and
 * sends toasts to the page instead (docs/PROTOCOL-PUSH.md "Visibility").
 */

import { HubError } from './errors.ts';

/** `visible`: a person uses the page. */
export type Visibility = 'visible' | 'hidden';

/** After this time without input, a page is no longer in use, and reports `hidden` even if it stays in view. */
const IN_USE_DURATION_MS = 60_000;
/** The wait before a failed report is repeated. The wait doubles up to {@link MAX_BACKOFF_MS}. */
const MIN_BACKOFF_MS = 1000;
const MAX_BACKOFF_MS = 60_000;

/** The callbacks that {@link Presence} uses. */
export interface PresenceEnvironment {
  isVisible: () => boolean;
  /** Sends a report to the hub. Must also work while the page is being closed. */
  report: (subscriptionId: string, visibility: Visibility) => Promise<void>;
  /** Called when the hub does not know the subscription. Its connection has ended then, even if the page has not noticed. */
  onSubscriptionGone: () => void;
}

/** Keeps the hub informed for the current event subscription. */
export class Presence {
  #environment: PresenceEnvironment;
  #subscriptionId: string | null = null;
  /** The visibility that was sent last, with the subscription or in a report. `null` if the report failed. */
  #reported: Visibility | null = null;
  /** The time of the last input, in Unix milliseconds. Loading and showing the page count as input. */
  #lastInputAt = Date.now();
  /** Whether the page got a toast after its last input. The user may be away, so the page reports `hidden` until the next input. */
  #awaitsInput = false;
  /** The number of the latest report. The outcome of an older report is ignored. */
  #latestReport = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(environment: PresenceEnvironment) {
    this.#environment = environment;
  }

  get #visibility(): Visibility {
    return this.#environment.isVisible() && !this.#awaitsInput && Date.now() < this.#lastInputAt + IN_USE_DURATION_MS
      ? 'visible'
      : 'hidden';
  }

  /** Ends the previous subscription. Returns the visibility with which the new subscription starts. */
  prepareSubscription(): Visibility {
    this.stop();
    return (this.#reported = this.#visibility);
  }

  /** Starts reporting for a new subscription. */
  handleConnected(subscriptionId: string): void {
    this.#subscriptionId = subscriptionId;
    if (this.#reported === this.#visibility) this.#scheduleReport();
    else void this.#report();
  }

  /** Records input. Reports the input if the page was not in use, or got a toast. */
  handleInput(): void {
    const isReportDue = this.#awaitsInput || this.#reported === 'hidden';
    this.#recordInput();
    if (isReportDue && this.#visibility === 'visible') void this.#report();
  }

  /** Records a toast. The hub drops the push that it holds back only when the page reports input after the toast. */
  handleToast(): void {
    this.#awaitsInput = true;
    if (this.#reported !== null) this.#scheduleReport();
  }

  /** Reports that the page was shown or hidden. Reports nothing without a subscription: the next subscription starts with the new value. */
  handleVisibilityChange(): void {
    this.#failures = 0;
    if (this.#environment.isVisible()) this.#recordInput();
    void this.#report();
  }

  /** Stops reporting for the current subscription. */
  stop(): void {
    this.#subscriptionId = null;
    this.#latestReport += 1;
    this.#failures = 0;
    clearTimeout(this.#timer);
  }

  #recordInput(): void {
    this.#lastInputAt = Date.now();
    this.#awaitsInput = false;
  }

  async #report(): Promise<void> {
    const id = this.#subscriptionId;
    if (id === null) return;
    clearTimeout(this.#timer);
    this.#latestReport += 1;
    const reportNumber = this.#latestReport;
    const visibility = this.#visibility;
    this.#reported = visibility;
    try {
      await this.#environment.report(id, visibility);
      if (reportNumber !== this.#latestReport) return;
      this.#failures = 0;
      this.#scheduleReport();
    } catch (error) {
      if (reportNumber !== this.#latestReport) return;
      if (error instanceof HubError && !error.isTransient) {
        this.stop();
        if (error.status === 404) this.#environment.onSubscriptionGone();
        return;
      }
      this.#reported = null;
      this.#timer = setTimeout(() => void this.#report(), Math.min(MIN_BACKOFF_MS * 2 ** this.#failures, MAX_BACKOFF_MS));
      this.#failures += 1;
    }
  }

  /** Schedules the next report of a page in use. Input before that time keeps the page in use. */
  #scheduleReport(): void {
    clearTimeout(this.#timer);
    if (this.#reported === 'visible')
      this.#timer = setTimeout(() => void this.#report(), this.#lastInputAt + IN_USE_DURATION_MS - Date.now());
  }
}
