/** The accounts of this browser. */

import './page-storage.ts';
import { Accounts } from '../api/accounts.ts';

/** The query parameter with the namespace whose account a page opens. */
export const ACCOUNT_PARAMETER = 'account';

export const accounts = new Accounts(localStorage);
