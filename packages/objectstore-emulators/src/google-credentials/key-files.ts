import { generateKeyPairSync } from 'node:crypto'
import { writeFileSync } from 'node:fs'

/** The accounts that the emulator knows. */
export interface KnownAccounts {
  email: string
  publicKeyPem: string
  clientId: string
  clientSecret: string
  refreshToken: string
}

/** Accounts with the private side that only key files hold. */
export interface AccountKeys extends KnownAccounts {
  privateKeyPem: string
}

let accounts: AccountKeys | undefined

/** The accounts of this process: making a key takes a good part of a second. */
export function emulatedAccounts(): AccountKeys {
  return (accounts ??= createAccounts())
}

function createAccounts(): AccountKeys {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  })
  return {
    email: 'worker@emulated.iam.gserviceaccount.com',
    publicKeyPem: publicKey,
    privateKeyPem: privateKey,
    clientId: 'emulated.apps.googleusercontent.com',
    clientSecret: 'emulated-client-secret',
    refreshToken: '1//emulated-refresh-token',
  }
}

/** Writes a service-account key. @see https://cloud.google.com/iam/docs/keys-create-delete */
export function writeServiceAccountKey(path: string, account: AccountKeys, tokenUrl: string): void {
  const key = {
    type: 'service_account',
    project_id: 'emulated',
    private_key_id: 'emulated-key',
    private_key: account.privateKeyPem,
    client_email: account.email,
    client_id: '1',
    token_uri: tokenUrl,
  }
  writeFileSync(path, JSON.stringify(key), { mode: 0o600 })
}

/** Writes what `gcloud auth application-default login` leaves. */
export function writeAuthorizedUser(path: string, account: AccountKeys): void {
  const { clientId, clientSecret, refreshToken } = account
  const user = {
    type: 'authorized_user',
    client_id: clientId,
    client_secret: clientSecret,
    refresh_token: refreshToken,
  }
  writeFileSync(path, JSON.stringify(user), { mode: 0o600 })
}
