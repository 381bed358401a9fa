import { createPrivateKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { configError, hideSecrets } from '@nexus/objectstore'

/**
 * Reads a service-account key and checks it as far as that goes without asking anybody.
 *
 * @throws NexusError `INVALID_ARGUMENT` naming `credentials_file`; never with anything of the file's content but its type
 */
export function readKeyFile(path: string): { client_email: string; private_key: string } {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw configError('credentials_file', `names ${path}, which can not be read`, error)
  }
  let key: Record<string, unknown>
  try {
    key = JSON.parse(text) as Record<string, unknown>
  } catch {
    // The parser's own message quotes the text, which is a secret.
    throw configError('credentials_file', `names ${path}, which is not JSON`)
  }
  const type: unknown = key?.['type']
  if (type !== 'service_account') {
    const found = typeof type === 'string' ? `a key of type ${JSON.stringify(type.slice(0, 40))}` : 'no key'
    throw configError('credentials_file', `names ${path}, which holds ${found}: only "service_account" is taken`)
  }
  const { client_email: email, private_key: pem } = key
  if (typeof email !== 'string' || typeof pem !== 'string' || !isPrivateKey(pem)) {
    throw configError('credentials_file', `names ${path}, which lacks a usable client_email or private_key`)
  }
  hideSecrets(pem, pem.replaceAll(/-----[^-]*-----|\s/g, ''))
  return key as { client_email: string; private_key: string }
}

function isPrivateKey(pem: string): boolean {
  try {
    createPrivateKey(pem)
    return true
  } catch {
    return false
  }
}
