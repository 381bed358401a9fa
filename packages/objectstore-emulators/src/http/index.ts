export { type Compression, openCompressingProxy } from './compressing-proxy.ts'
export { type LoopbackServer, type LoopbackServerOptions, openLoopbackServer } from './loopback-server.ts'
export {
  ConnectionLost,
  delayOf,
  isLostAnswer,
  isSilent,
  loseConnection,
  sendBody,
  statusOf,
  stayInSilence,
  uploadBody,
} from './faulty-exchange.ts'
export { openSlowLink } from './slow-link.ts'
