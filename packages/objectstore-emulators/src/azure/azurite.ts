import { createRequire } from 'node:module'
import { Worker } from 'node:worker_threads'

/** A running Azurite. */
export interface Azurite {
  /** `http://127.0.0.1:PORT`, no slash at the end; https with a certificate. */
  url: string
  close(): Promise<void>
}

/** Paths of PEM files: serve https, and take bearer tokens. */
export interface AzuriteTls {
  certPath: string
  keyPath: string
}

/** Starts the vendor's own emulator in a thread, so that it ends with the process that tests. It keeps everything in memory. */
export async function startAzurite(tls?: AzuriteTls): Promise<Azurite> {
  const program = createRequire(import.meta.url).resolve('azurite/dist/src/blob/main.js')
  const secure = tls === undefined ? [] : ['--oauth', 'basic', '--cert', tls.certPath, '--key', tls.keyPath]
  const argv = ['--inMemoryPersistence', '--blobPort', '0', '--disableTelemetry', '--skipApiVersionCheck', '--silent']
  const worker = new Worker(program, { argv: [...argv, ...secure], execArgv: [], stdout: true, stderr: true })
  const url = await new Promise<string>((resolve, reject) => {
    let said = ''
    const listen = (text: Buffer): void => {
      said += text.toString()
      const [, found] = /successfully listens on (\S+)/.exec(said) ?? []
      if (found !== undefined) resolve(found)
    }
    worker.stdout.on('data', listen)
    worker.stderr.on('data', listen)
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error(`azurite ended before it listened: ${said}`)))
  })
  return { url, close: async () => void (await worker.terminate()) }
}
