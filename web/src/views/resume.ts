/** Resumes a session from a view. */

import type { Session } from '../api/types.ts';
import * as actions from '../state/actions.ts';
import { sessionTitle } from '../state/sessions.ts';
import { openOrOffer, tryOrToast } from '../ui/toasts.tsx';
import { startAskingTrust } from './ask-trust.ts';

/** Resumes a session, and navigates to the session's new id if the hub has changed the id. */
export async function resumeAndShow(session: Session, navigate: (to: string) => void): Promise<boolean> {
  const { id } = session;
  const { pathname } = location;
  return tryOrToast('Could not resume the session', () =>
    startAskingTrust(async (trust) => {
      const resumedId = await actions.resume(id, trust);
      const isHere = location.pathname === pathname;
      if (resumedId !== id)
        openOrOffer(isHere, navigate, { title: 'Session resumed', text: sessionTitle(session), url: `/sessions/${resumedId}` });
    }),
  );
}
