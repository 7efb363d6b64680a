/** Resumes a session from a view. */

import * as actions from '../state/actions.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { startAskingTrust } from './ask-trust.ts';

/** Resumes a session, and navigates to the session's new id if the hub has changed the id. */
export async function resumeAndShow(id: string, navigate: (to: string) => void): Promise<boolean> {
  return tryOrToast('Could not resume the session', () =>
    startAskingTrust(async (trust) => {
      const resumedId = await actions.resume(id, trust);
      if (resumedId !== id) navigate(`/sessions/${resumedId}`);
    }),
  );
}
